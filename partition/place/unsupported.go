package place

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
)

// Supports is device.Device.Supports of device d.
type Supports func(d int, n *graph.Node) error

// MoveUnsupported ends the pass: movable nodes that the device of their group does not run
// go to the last group whose device does, and what they assign goes with them.
func MoveUnsupported(p *Placement, idx *nodes.Index, devices []int, supports Supports) {
	if supports == nil {
		return
	}
	for _, n := range stop.Each(idx.Stop, idx.Graph.Nodes) {
		if !idx.Movable(n) {
			continue
		}
		at := p.Node[n.ID]
		why := supports(devices[at], n)
		if why == nil {
			continue
		}
		for to := p.Groups - 1; to >= 0; to-- {
			if supports(devices[to], n) == nil {
				move(p, idx, Moved{n, at, to, why})
				break
			}
		}
	}
}

// move moves a node.
func move(p *Placement, idx *nodes.Index, m Moved) {
	p.Node[m.Node.ID] = m.To
	for _, out := range m.Node.Out {
		if v := idx.Variable[out.ID]; v != nil {
			p.Owner[v.Name] = m.To
		}
	}
	p.Moved = append(p.Moved, m)
}
