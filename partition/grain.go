package partition

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
)

// grain is how finely a stage is cut into segments. A launch of a finer segment
// needs less memory at once; the price is more launches, and values that
// segments share where they were inside one. Nodes and their order are the same.
type grain uint8

// The grains, from coarse to fine.
const (
	wholePhases grain = iota // a segment per phase and level of the update
	byBlock                  // cut at blocks, and updates at parameters
	byLayer                  // cut at layers too
	byNode                   // cut at every op
	grains      int   = iota
)

var grainNames = [grains]string{"whole phases", "blocks", "layers", "ops"}

// String is for people: "blocks".
func (g grain) String() string { return grainNames[g] }

// piece is neighbouring nodes of a unit that become one segment.
type piece struct {
	label string // unique in the unit; "" for a whole unit
	nodes []*graph.Node
}

// cutter cuts units into pieces.
type cutter struct {
	idx   *index
	grain grain
}

// cut cuts the nodes of a unit where their keys change. A node without a key goes
// with the nodes before it, or else with those behind.
func (c cutter) cut(u unit) []piece {
	if c.grain == wholePhases {
		return []piece{{nodes: u.nodes}}
	}
	var pieces []piece
	key, begin := "", 0
	for i, n := range u.nodes {
		k := c.key(n, u.phase == graph.Update)
		if k == "" || k == key {
			continue
		}
		if key != "" {
			pieces = append(pieces, piece{key, u.nodes[begin:i]})
			begin = i
		}
		key = k
	}
	pieces = append(pieces, piece{key, u.nodes[begin:]})
	if len(pieces) == 1 {
		pieces[0].label = ""
	} else {
		number(pieces)
	}
	return pieces
}

// number makes labels unique: the second piece "b0" is "b0.2".
func number(pieces []piece) {
	seen := map[string]int{}
	for i := range pieces {
		p := &pieces[i]
		if p.label == "" {
			p.label = "rest"
		}
		seen[p.label]++
		if n := seen[p.label]; n > 1 {
			p.label = fmt.Sprintf("%s.%d", p.label, n)
		}
	}
}

// key tells nodes of different pieces apart; "" fits any piece.
func (c cutter) key(n *graph.Node, update bool) string {
	if update || n.Phase == graph.Update && c.grain == byNode {
		return c.tensor(n)
	}
	if n.Phase == graph.Update {
		return "" // with its gradient
	}
	l := n.Layer
	if l == nil && n.Of != nil {
		l = n.Of.Layer
	}
	switch {
	case c.grain == byNode && len(n.Out) > 0:
		return n.Out[0].Name
	case c.grain == byLayer && l != nil:
		return l.Name
	}
	return blockOf(l)
}

// tensor names the variable that a node of the update assigns, or else the first
// tensor that it reads; "" if it has to do with single numbers only.
func (c cutter) tensor(n *graph.Node) string {
	for _, v := range n.Out {
		if h := c.idx.variable[v.ID]; h != nil && !scalar(h) {
			return h.Name
		}
	}
	for _, v := range n.In {
		if !scalar(v) {
			return v.Name
		}
	}
	return ""
}

// chooseGrain makes the segments of the coarsest grain with which nothing moves
// for lack of memory; else of that which takes the least time. If no grain fits,
// it is the one that lacks the fewest bytes.
func (base *Plan) chooseGrain(groups *grouped) (best *Plan, err error) {
	for _, at := range base.options.grains {
		p := *base
		if err := p.cutAt(at, groups); err != nil {
			return nil, err
		}
		s := p.shortage()
		if best == nil {
			best = &p
		} else if s.less(best.shortage()) {
			p.setPeaks(best.Memory)
			best = &p
		}
		if s.missing == 0 && (s.moved == 0 || p.launches > mostToCompare) {
			break
		}
	}
	return best, nil
}

// mostToCompare is the most launches of a step with which finer grains are tried
// though this one fits: forecasts of many launches take long.
const mostToCompare = 4096

// cutAt makes the segments of a grain, and forecasts the memory of a step.
func (p *Plan) cutAt(at grain, groups *grouped) error {
	p.grain = at
	lists, err := listSegments(groups, at)
	if err != nil {
		return err
	}
	b := newBinder(p.idx)
	for i, l := range lists {
		if err := p.idx.stop.Err(); err != nil {
			return err
		}
		l.id, l.device = i, p.cut.device[l.stage]
		p.Segments = append(p.Segments, b.bind(l))
	}
	findFrees(p.idx, p.Segments)
	p.Transfers = findTransfers(p.idx, p.place, p.Segments, p.cut.device)
	return p.forecast()
}

// shortage is the cost of devices that are too small for a plan.
type shortage struct {
	missing int64   // bytes below the floors
	moved   int64   // bytes per step
	seconds float64 // of the slowest device
}

func (p *Plan) shortage() (s shortage) {
	for i := range p.Memory {
		f := &p.Memory[i]
		if !f.Fits() {
			s.missing += f.Floor - f.Limit
		}
		s.moved += f.Moved()
		s.seconds = max(s.seconds, f.Seconds)
	}
	return s
}

func (s shortage) less(o shortage) bool {
	return s.missing < o.missing || s.missing == o.missing && s.seconds < o.seconds
}
