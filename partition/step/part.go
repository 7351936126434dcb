package step

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/segment"
)

// A rank among many does little of a step. Its part is its own launches, and of others those that it must know of: that
// write what it has or read it from it, that use it last, and that say who has a variable or an output. The needs of
// these are only those tensors. So the part grows with the rank's own work and with the number of ranks, not with their
// product. An [Exchange] of the part has the messages of the rank, and the same holders of variables as all have.

// part lists the launches of a rank's part.
func (p *Program) part(check *stop.Check, o Options) ([]Launch, error) {
	x := &parting{of: o.Of, rank: o.Rank, near: o.Near, fetch: o.Fetch, output: p.Index.Output, own: newNumbering(p.Index), last: map[int]int{}}
	o.Of = nil
	own := newExpansion(p, o)
	own.numbers, own.visit, own.skips = x.own, func(*Launch) {}, func(d int) bool { return x.of[d] != x.rank }
	if err := own.expand(check); err != nil {
		return nil, err
	}
	for _, visit := range []func(*Launch){x.note, x.add} {
		all := newExpansion(p, o)
		all.visit, all.numbers = visit, nil
		if x.index = 0; all.expand(check) != nil {
			return nil, check.Err()
		}
	}
	e := newExpansion(p, o)
	e.launches, e.numbers = x.launches, x.own
	e.endInstances(check)
	return e.launches, check.Err()
}

// parting finds the part of a rank while it hears of each launch of a step, twice. A call of part owns it.
type parting struct {
	of       []int
	rank     int
	near     bool
	fetch    bool        // the step's outputs stay, and all know on which rank
	output   []bool      // by Value.ID
	own      *numbering  // of the instances that the rank uses, and of variables
	last     map[int]int // by number: the launch that uses it last
	index    int         // of the launch under way
	known    []heldAt    // by number
	launches []Launch
}

// note notes who uses the rank's instances last.
func (x *parting) note(l *Launch) {
	for k := range l.Needs {
		if number, known := x.own.find(l.Needs[k].Instance); known {
			x.last[number] = x.index
		}
	}
	x.index++
}

// add adds a launch to the part, or what the rank must know of it.
func (x *parting) add(l *Launch) {
	at := x.of[l.Device]
	var needs []Need
	for _, n := range l.Needs {
		number, known := x.own.find(n.Instance)
		if !x.near && (n.Value.Kind == graph.Variable || x.fetch && x.output[n.Value.ID]) {
			number, known = x.own.number(n.Instance), true
		}
		if !known {
			continue
		}
		if n.Number = number; x.changes(l, &n, at) || at == x.rank || x.last[number] == x.index {
			needs = append(needs, n)
		}
	}
	if x.index++; len(needs) == 0 {
		return
	}
	own := *l
	if own.Needs = needs; at != x.rank {
		own.In, own.Out = nil, nil
	}
	x.launches = append(x.launches, own)
}

// changes notes that a rank uses an instance, and reports whether the part's rank must know: it is written, or the
// rank sends it, or it is a variable, which a rank sends that has had it since the step before. Without holders of
// variables, it must know only that its copy is no longer the newest.
func (x *parting) changes(l *Launch, n *Need, at int) (yes bool) {
	if more := n.Number + 1 - len(x.known); more > 0 {
		x.known = append(x.known, make([]heldAt, more)...)
	}
	h := &x.known[n.Number]
	if n.Mode != segment.Write && !ownEach(n.Value) && !h.has(at) {
		yes = n.Value.Kind == graph.Variable || h.written && x.of[h.from] == x.rank
		h.add(at)
	}
	h.use(l, n.Mode, at)
	if x.near {
		return n.Mode != segment.Read && !l.repeats
	}
	return yes || n.Mode != segment.Read
}
