package paging

import "slices"

// Plan is when the objects of a step leave the memory and come back, if it is short. Without a
// plan, an object leaves when its room is needed, and comes back when it is read. The plan has
// the same objects leave after their last use before that, and come back as soon as there is
// room. So it moves the same bytes, and copies run while launches work.
//
// Steps may move differently by turns. Then the plan is of as many steps as repeat.
type Plan struct {
	Leaves [][]int // per launch of these steps: the objects that leave before it takes memory
	Loads  [][]int // likewise: the objects that come back once it has its memory, for later launches; those that are due first come first
}

// Launch is the index in Leaves and Loads of a launch of a step, in which each step has so many launches.
func (p *Plan) Launch(now, step, launches int) int {
	return step%(len(p.Leaves)/launches)*launches + now
}

// planner plans the moves of steps from those of steps without a plan. A call of [memory.plan] owns it.
//
// Launches count from the start of the first of these steps. Since they repeat, launch -1 is the last of them.
type planner struct {
	trace  *Trace
	order  *Order
	limit  int64   // of what may be used
	used   []int64 // per launch: bytes of its scratch, and of the objects that have not left then
	begin  int     // of the step under way
	leaves [][]int
	loads  []load
}

// load is the load of an object.
type load struct {
	object   int
	due      int // the launch that reads it
	at       int // the launch with which it comes back
	earliest int // the first one with which it may
}

// plan plays steps by a policy without a plan, and makes a plan of them.
func (m *memory) plan(steps int) Plan {
	n := steps * len(m.trace.Launches)
	x := &planner{trace: m.trace, order: m.order, limit: m.limit - m.policy.Spare, used: make([]int64, n), leaves: make([][]int, n)}
	m.hears = hears{came: x.came, went: x.went, ran: func(now int) { x.used[x.begin+now] += m.used }}
	for range steps {
		m.step()
		x.begin += len(m.trace.Launches)
	}
	m.hears = hears{}
	x.pull()
	return x.plan()
}

// went notes that an object leaves, since launch now needs room. It leaves after its last use instead.
func (x *planner) went(object, now int) {
	first := x.begin + x.order.last(object, now, false) + 1
	for k := first; k < x.begin+now; k++ {
		x.used[x.index(k)] -= x.bytes(object)
	}
	at := &x.leaves[x.index(first)]
	*at = append(*at, object)
}

// came notes that an object comes back, since launch now reads it. It can come back no sooner than a launch after it left.
// One that is fed is on the host when the step begins.
func (x *planner) came(object, now int) {
	l := load{object: object, due: x.begin + now, at: x.begin + now, earliest: x.begin}
	if !x.trace.Objects[object].Fed || x.order.uses[object][0] != now {
		l.earliest += x.order.last(object, now, false) + 2
	}
	x.loads = append(x.loads, l)
}

// index is the place in the steps of a launch.
func (x *planner) index(launch int) int {
	if launch < 0 {
		launch += len(x.used)
	}
	return launch
}

func (x *planner) bytes(object int) int64 { return Rounded(x.trace.Objects[object].Bytes) }

// pull has all objects come back one launch earlier, where there is room, then all another one, and so on. So each can be copied
// during one launch before another has the room for two.
func (x *planner) pull() {
	for pulled := true; pulled; {
		pulled = false
		for i := range x.loads {
			l := &x.loads[i]
			if l.at <= l.earliest {
				continue
			}
			used, bytes := &x.used[x.index(l.at-1)], x.bytes(l.object)
			if *used+bytes > x.limit {
				l.earliest = l.at
				continue
			}
			*used += bytes
			l.at--
			pulled = true
		}
	}
}

// plan lists what was planned.
func (x *planner) plan() Plan {
	p := Plan{Leaves: x.leaves, Loads: make([][]int, len(x.used))}
	slices.SortStableFunc(x.loads, func(a, b load) int { return (a.due - a.at) - (b.due - b.at) }) // of one launch, those that are due first
	for _, l := range x.loads {
		if l.at < l.due {
			at := &p.Loads[x.index(l.at)]
			*at = append(*at, l.object)
		}
	}
	return p
}
