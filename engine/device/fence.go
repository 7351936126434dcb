package device

// Fence is a set of events, at most one per queue: a queue works in order, so
// its latest event stands for the earlier ones. Emptying it with f[:0] keeps its
// memory, so that steady state allocates nothing.
type Fence []Event

// fenceSize is the initial capacity of a fence: a compute stream and three copy
// streams.
const fenceSize = 4

// Add adds e in place of an earlier event of the same queue.
func (f *Fence) Add(e Event) {
	if e.Queue == nil {
		return
	}
	for i := range *f {
		if (*f)[i].Queue == e.Queue {
			(*f)[i].Seq = max((*f)[i].Seq, e.Seq)
			return
		}
	}
	if *f == nil {
		*f = make(Fence, 0, fenceSize)
	}
	*f = append(*f, e)
}

// Covers reports whether e has ended once all events of the fence have.
func (f Fence) Covers(e Event) bool {
	for i := range f {
		if f[i].Queue == e.Queue {
			return f[i].Seq >= e.Seq
		}
	}
	return e.Queue == nil
}

// Done reports whether all events have ended.
func (f Fence) Done() bool {
	for _, e := range f {
		if !e.Done() {
			return false
		}
	}
	return true
}
