package partition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// allReplicas is PlanOptions.Supports of the devices of one replica: a device stands for
// those that have its place in the other replicas.
func (o *PlanOptions) allReplicas() Supports {
	all, devices, replicas, each := o.Supports, o.Devices, max(1, o.Replicas), o.perReplica()
	if all == nil || replicas == 1 {
		return all
	}
	return func(d int, n *graph.Node) error {
		for r := range replicas {
			if err := all(r*each+d, n); err != nil {
				return fmt.Errorf("%s: %w", devices[r*each+d].ID, err)
			}
		}
		return nil
	}
}

// movable reports whether a node of the update can be on any device: it makes a number,
// or a counter or metric that all stages share.
func (x *index) movable(n *graph.Node) bool {
	if n.Phase != graph.Update {
		return false
	}
	shared := false
	for _, out := range n.Out {
		v := x.variable[out.ID]
		if v != nil && ownsItself(v.Role) {
			return false
		}
		shared = shared || v != nil && (v.Role == graph.Counter || v.Role == graph.Metric)
	}
	return shared || scalars(n.Out)
}

// refusals are the reasons for which devices do not run blocks, by device and block; nil
// where they run them. Movable nodes count if movable is true.
func refusals(g *grouped, o *PlanOptions, movable bool) [][]error {
	all := make([][]error, len(o.Devices))
	for d := range all {
		all[d] = make([]error, len(g.groups))
		for i := range g.groups {
			all[d][i] = g.refusal(i, d, o.Supports, movable)
		}
	}
	return all
}

// refusal is the reason for which a device does not run a group.
func (g *grouped) refusal(group, d int, supports Supports, movable bool) error {
	if supports == nil {
		return nil
	}
	for _, nodes := range g.groups[group].nodes {
		for _, n := range stop.Each(g.idx.stop, nodes) {
			if !movable && g.idx.movable(n) {
				continue
			}
			if err := supports(d, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSupport refuses a cut by hand with a block on a device that does not run it.
func checkSupport(idx *index, c cut, o PlanOptions) error {
	if o.Supports == nil || len(c.blocks) == 0 {
		return nil
	}
	g := groupNodes(idx, place(idx, len(c.blocks), oneGroupEach(c.blocks)))
	for i, b := range c.blocks {
		d := c.device[c.stageOf[i]]
		if err := g.refusal(i, d, o.Supports, false); err != nil {
			return fmt.Errorf("%w: stage %d has block %q, and %s does not run that: %s; put the block on another device", ErrStages, c.stageOf[i], b, o.Devices[d].ID, whyNot(err))
		}
	}
	return nil
}

// whyNot is the reason of a device's refusal, without the words that it is one.
func whyNot(err error) string {
	return strings.ReplaceAll(err.Error(), device.ErrUnsupported.Error()+": ", "")
}

// moved is a node that is elsewhere than its readers, since their device does not run it.
type moved struct {
	node     *graph.Node
	from, to int // groups
	why      error
}

// moveUnsupported ends pass 4: movable nodes that the device of their group does not run
// go to the last group whose device does, and what they assign goes with them.
func (p *placement) moveUnsupported(idx *index, devices []int, o PlanOptions) {
	if o.Supports == nil {
		return
	}
	for _, n := range stop.Each(idx.stop, idx.g.Nodes) {
		if !idx.movable(n) {
			continue
		}
		at := p.node[n.ID]
		why := o.Supports(devices[at], n)
		if why == nil {
			continue
		}
		for to := p.groups - 1; to >= 0; to-- {
			if o.Supports(devices[to], n) == nil {
				p.move(idx, moved{n, at, to, why})
				break
			}
		}
	}
}

// move moves a node.
func (p *placement) move(idx *index, m moved) {
	p.node[m.node.ID] = m.to
	for _, out := range m.node.Out {
		if v := idx.variable[out.ID]; v != nil {
			p.owner[v.Name] = m.to
		}
	}
	p.moved = append(p.moved, m)
}

// Elsewhere says, a line for each, which blocks and nodes are not where they would be
// otherwise, since a device does not run them.
func (p *Plan) Elsewhere() (lines []string) {
	add := func(line string) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, line := range p.cut.refused {
		add(line)
	}
	for _, m := range p.place.moved {
		on := func(group int) device.ID { return p.options.Devices[p.cut.device[group]].ID }
		add(fmt.Sprintf("%s is on %s, since %s does not run it: %s", m.node.Op.Kind(), on(m.to), on(m.from), whyNot(m.why)))
	}
	return lines
}

// movedHere says which nodes a stage has because another device does not run them.
func (p *Plan) movedHere(stage int) string {
	var list []string
	for _, m := range p.place.moved {
		what := fmt.Sprintf("has %s, which %s does not run", m.node.Op.Kind(), p.options.Devices[p.cut.device[m.from]].ID)
		if m.to == stage && !slices.Contains(list, what) {
			list = append(list, what)
		}
	}
	if list == nil {
		return ""
	}
	return "; " + strings.Join(list, "; ")
}
