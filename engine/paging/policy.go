package paging

// Policy is how to make room in a device's memory.
type Policy struct {
	Ahead int   // launches whose loads are queued before they are due
	Spare int64 // bytes to keep free, where giving up objects can
}

// mostAhead is the most launches whose loads are queued before they are due. The
// host is that far ahead anyway; more only takes memory.
const mostAhead = 3

// spareShare is the share of the memory that is kept free.
const spareShare = 64

// NewPolicy is the policy for a trace. Loads are queued ahead, so that they overlap
// with the launches before: as far as leaves the fewest launches waiting, among
// those that move hardly more than none ahead. Where objects move at all, a little
// memory is kept free: without any, room for an object means to move most others
// within the memory.
func NewPolicy(t *Trace, limit int64) Policy {
	p, _ := newPolicy(t, limit)
	return p
}

// newPolicy is NewPolicy, with the replay of the policy.
func newPolicy(t *Trace, limit int64) (best Policy, result Result) {
	if result = replay(t, limit, best); result.Moved() == 0 {
		return best, result
	}
	best.Spare = limit / spareShare
	result = replay(t, limit, best)
	most := result.Moved() + result.Moved()/20
	for n := 1; n <= mostAhead; n++ {
		p := Policy{n, best.Spare}
		if r := replay(t, limit, p); r.Moved() <= most && r.Waits < result.Waits {
			best, result = p, r
		}
	}
	return best, result
}

// Replay runs a trace step after step in order of submission, until the memory's
// state repeats. A limit of 0 is none. It follows the [Policy] for the trace.
func Replay(t *Trace, limit int64) Result {
	_, result := newPolicy(t, limit)
	return result
}
