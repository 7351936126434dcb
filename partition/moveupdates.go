package partition

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// Supports is device.Device.Supports of PlanOptions.Devices[d].
type Supports func(d int, n *graph.Node) error

// moveUnsupported ends pass 4: movable nodes that the device of their group does not run
// go to the last group whose device does, and what they assign goes with them.
func moveUnsupported(p *placement, idx *index, devices []int, supports Supports) {
	if supports == nil {
		return
	}
	for _, n := range stop.Each(idx.stop, idx.g.Nodes) {
		if !idx.movable(n) {
			continue
		}
		at := p.node[n.ID]
		why := supports(devices[at], n)
		if why == nil {
			continue
		}
		for to := p.groups - 1; to >= 0; to-- {
			if supports(devices[to], n) == nil {
				move(p, idx, moved{n, at, to, why})
				break
			}
		}
	}
}

// move moves a node.
func move(p *placement, idx *index, m moved) {
	p.node[m.node.ID] = m.to
	for _, out := range m.node.Out {
		if v := idx.variable[out.ID]; v != nil {
			p.owner[v.Name] = m.to
		}
	}
	p.moved = append(p.moved, m)
}
