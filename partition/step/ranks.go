package step

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition/segment"
)

// Exchange is what ranks send each other in a step, each of which has some of the devices.
// It follows from the launches alone, so that every rank finds the same: who wrote a
// tensor last, and who reads it next.
type Exchange struct {
	of       []int // per device, the rank that has it
	launches []Launch
	// Messages are in their order. Every rank takes part in its own in that order, each
	// before the launch that reads it: so none waits in a circle.
	Messages []Message
	written  Holders // at the end of the step, of the variables that it writes
}

// Message is a tensor that one rank sends to another, which reads it in a launch.
type Message struct {
	Need
	Before int // index of the launch
	From   int // the device that has written the tensor in this step; -1: see [Exchange.Senders]
	To     int // the device of the launch
}

// NewExchange finds what ranks send each other for launches. of is, per device, its rank.
func NewExchange(launches []Launch, of []int) *Exchange {
	x := &Exchange{of: of, launches: launches, written: Holders{}}
	known := make([]heldAt, Count(launches))
	for i := range launches {
		l := &launches[i]
		rank := of[l.Device]
		for k := range l.Needs {
			n := &l.Needs[k]
			h := &known[n.Number]
			if n.Mode != segment.Write && !ownEach(n.Value) && !h.has(rank) {
				m := Message{Need: *n, Before: i, From: -1, To: l.Device}
				if h.written {
					m.From = h.from
				}
				x.Messages = append(x.Messages, m)
				h.add(rank)
			}
			h.use(l, n.Mode, rank)
			if n.Value.Kind == graph.Variable && h.written {
				x.written[n.Value.Name] = h.ranks
			}
		}
	}
	return x
}

// heldAt is where the newest contents of an instance are, at a launch.
type heldAt struct {
	ranks   held         // that have them; of a variable that the step has not written yet, those that have read it
	written bool         // by the step
	set     map[int]bool // the same, of more than few
	from    int          // the device that has written them, if one has
}

// use notes what a launch of a rank does.
func (h *heldAt) use(l *Launch, m segment.Mode, rank int) {
	switch {
	case m == segment.Read:
	case l.repeats:
		h.add(rank)
	default:
		h.written, h.from, h.ranks, h.set = true, l.Device, append(h.ranks[:0], rank), nil
	}
}

// few is how many ranks are looked for one by one.
const few = 16

// has reports whether a rank has the instance.
func (h *heldAt) has(rank int) bool {
	if h.set == nil {
		return h.ranks.has(rank)
	}
	return h.set[rank]
}

// add adds a rank that has it.
func (h *heldAt) add(rank int) {
	if h.has(rank) {
		return
	}
	if h.ranks = append(h.ranks, rank); h.set != nil {
		h.set[rank] = true
	} else if len(h.ranks) > few {
		h.set = make(map[int]bool, 2*few)
		for _, r := range h.ranks {
			h.set[r] = true
		}
	}
}

// ownEach reports whether each rank makes a tensor by itself that it reads.
func ownEach(v *graph.Value) bool { return v.PerMicrobatch || v.Kind == graph.Input }

// held are ranks. The first is the one that has written what they have, or the lowest one if all
// were given the same first contents: others get it from there.
type held []int

func (h held) has(rank int) bool { return slices.Contains(h, rank) }

func (h *held) add(rank int) {
	if !h.has(rank) {
		*h = append(*h, rank)
	}
}

// Holders are, by the name of a variable, the ranks that have its newest contents.
type Holders map[string]held

// Users are the variables that the launches of the step use, and the ranks of these launches.
func (x *Exchange) Users() Holders {
	h := Holders{}
	for i := range x.launches {
		l := &x.launches[i]
		for k := range l.Needs {
			if v := l.Needs[k].Value; v.Kind == graph.Variable {
				h.Add(v.Name, x.of[l.Device])
			}
		}
	}
	for _, ranks := range h {
		slices.Sort(ranks)
	}
	return h
}

// Add adds a rank that has the newest contents of a variable.
func (h Holders) Add(variable string, rank int) {
	ranks := h[variable]
	ranks.add(rank)
	h[variable] = ranks
}

// Join adds the ranks of others.
func (h Holders) Join(others Holders) {
	for variable, ranks := range others {
		for _, r := range ranks {
			h.Add(variable, r)
		}
	}
}

// Has reports whether a rank has the newest contents of a variable.
func (h Holders) Has(variable string, rank int) bool { return h[variable].has(rank) }

// Keep leaves of a variable's ranks those that have a use for it. If none has, all stay.
func (h Holders) Keep(variable string, use func(rank int) bool) {
	if ranks := h[variable]; slices.ContainsFunc(ranks, use) {
		h[variable] = slices.DeleteFunc(ranks, func(r int) bool { return !use(r) })
	}
}

// First is the rank that sends the newest contents of a variable to others: it has written them,
// or is the lowest that was given them first. -1: none has them.
func (h Holders) First(variable string) int {
	if ranks := h[variable]; len(ranks) > 0 {
		return ranks[0]
	}
	return -1
}

// Senders appends, for each message, the rank that sends it, or -1 if the one that reads
// the tensor has it already. h is who has the variables when the step begins, and then who
// has them at its end.
func (x *Exchange) Senders(h Holders, list []int) []int {
	for i := range x.Messages {
		m := &x.Messages[i]
		rank := -1
		if m.From >= 0 {
			rank = x.of[m.From]
		} else if to := x.of[m.To]; !h.Has(m.Value.Name, to) {
			rank = h.First(m.Value.Name)
			h.Add(m.Value.Name, to)
		}
		list = append(list, rank)
	}
	for name, ranks := range x.written {
		h[name] = append(h[name][:0], ranks...)
	}
	return list
}

// Writer is the device of the launch that is the last to write an instance; -1 if none writes it.
func (x *Exchange) Writer(id ID) int {
	for i := len(x.launches) - 1; i >= 0; i-- {
		for k := range x.launches[i].Needs {
			if n := &x.launches[i].Needs[k]; n.Mode != segment.Read && n.ID() == id {
				return x.launches[i].Device
			}
		}
	}
	return -1
}

// Homes are, by variable, the devices from which a rank sends variables that the step has not written yet.
func (x *Exchange) Homes(rank int) map[string]int {
	homes := map[string]int{}
	for i := range x.launches {
		for _, n := range x.launches[i].Needs {
			if v := n.Value; v.Kind == graph.Variable && x.of[x.launches[i].Device] == rank {
				if _, has := homes[v.Name]; !has || n.Mode != segment.Read {
					homes[v.Name] = x.launches[i].Device
				}
			}
		}
	}
	return homes
}

// Hosted are the bytes of the messages of a rank that go through host memory, in a step among others: those to and from
// the devices of which hosted says so.
func (x *Exchange) Hosted(rank int, hosted func(device int) bool) (bytes int64) {
	homes, counted, h := x.Homes(rank), make([]bool, len(x.Messages)), x.Users()
	for range 2 {
		for i, from := range x.Senders(h, nil) {
			m := &x.Messages[i]
			var at int
			switch {
			case counted[i] || from < 0:
				continue
			case x.of[m.To] == rank:
				at = m.To
			case from != rank:
				continue
			case m.From >= 0:
				at = m.From
			default:
				at = homes[m.Value.Name]
			}
			if hosted(at) {
				counted[i] = true
				bytes += m.Value.Meta.Bytes()
			}
		}
	}
	return bytes
}

// Drops lists the tensors that a rank has no use for after launch i of the step: those that nobody
// uses later, and those that the launch writes on another rank.
func (x *Exchange) Drops(rank int) [][]Instance {
	has := make([]bool, Count(x.launches))
	for i := range x.launches {
		for _, n := range x.launches[i].Needs {
			if n.Value.Kind == graph.Variable && x.of[x.launches[i].Device] == rank {
				has[n.Number] = true // since the step before
			}
		}
	}
	list := make([][]Instance, len(x.launches))
	for i := range x.launches {
		l := &x.launches[i]
		own := x.of[l.Device] == rank
		for k := range l.Needs {
			n := &l.Needs[k]
			has[n.Number] = has[n.Number] || own
			if has[n.Number] && (slices.Contains(l.Over, k) || n.Mode != segment.Read && !own && !l.repeats && !x.also(l, rank)) {
				has[n.Number] = false
				list[i] = append(list[i], n.Instance)
			}
		}
	}
	return list
}

// also reports whether a rank repeats a launch.
func (x *Exchange) also(l *Launch, rank int) bool {
	return slices.ContainsFunc(l.Also, func(d int) bool { return x.of[d] == rank })
}

// Bytes are those that each rank sends to each other one, by their numbers, in a step among
// others: its variables are where the same step left them.
func (x *Exchange) Bytes() [][]int64 {
	ranks := slices.Max(x.of) + 1
	sent := make([][]int64, ranks)
	for r := range sent {
		sent[r] = make([]int64, ranks)
	}
	h := x.Users()
	first := x.Senders(h, nil)
	for i, from := range x.Senders(h, first[:0]) {
		if m := &x.Messages[i]; from >= 0 {
			sent[from][x.of[m.To]] += m.Value.Meta.Bytes()
		}
	}
	return sent
}
