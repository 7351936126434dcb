package paging

// Move is a copy of an object for lack of memory.
type Move struct {
	Launch int  // index in Trace.Launches of the launch with which it is queued
	Object int  // index in Trace.Objects
	Out    bool // it goes to the host; otherwise it comes back
	Ahead  bool // a later launch needs it, or the memory that it leaves
}

// settled is the steps after which a step's moves are taken for those of all to come.
const settled = 3

// Moves lists the moves of a step among others, in the order in which they are queued. It
// decides as [Replay] does.
func Moves(t *Trace, limit int64) (list []Move) {
	p, result := newPolicy(t, limit)
	if !result.Fits || result.Moved() == 0 {
		return nil
	}
	m := newMemory(t, limit, p)
	for range settled {
		m.step()
	}
	m.moved = func(x Move) { list = append(list, x) }
	m.step()
	return list
}

// tell tells of a copy.
func (m *memory) tell(object, now int, out bool) {
	if m.moved != nil {
		m.moved(Move{Launch: now, Object: object, Out: out, Ahead: m.ahead})
	}
}
