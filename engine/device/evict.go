package device

import "math"

// Never is the NextUse of a copy that the known order does not use again.
const Never = math.MaxInt

// Candidate is a copy of a tensor on a device that could be given up to make room.
type Candidate struct {
	Name    string // of the tensor
	Usage   Usage
	Bytes   int64
	Clean   bool   // there are other current contents: giving it up copies nothing out
	NextUse int    // launches on the device until its next use; Never if none is known
	LastUse uint64 // greater is later
}

// Evictor is a Device with a policy of its own for which copy to give up. Victim
// answers with an index into c, which is not empty and has no copy that is in use.
// It is called with locks held, and must neither keep c nor call back.
type Evictor interface {
	Victim(c []Candidate) int
}

// EvictorOf is the policy of a device, or of the device that it wraps; nil if
// there is none.
func EvictorOf(d Device) Evictor {
	if e, ok := d.(Evictor); ok {
		return e
	}
	e, _ := Opened(d).(Evictor)
	return e
}
