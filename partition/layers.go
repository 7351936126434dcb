package partition

import (
	"fmt"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// LayerLoad is a layer's part of a plan.
type LayerLoad struct {
	Layer      *graph.Layer
	Stage      int
	Output     shape.Meta // of a microbatch; without a type, the layer has no nodes
	Parameters int64      // elements
	Flops      int64      // per microbatch, F and B
	Resident   int64      // bytes of its parameters, statistics and optimizer state
	Kept       int64      // bytes per microbatch: what F computes and B reads
}

// Layers lists the layers in the order of the model, with the nodes that each has
// before any are fused.
func (p *Plan) Layers() []LayerLoad {
	l := &loads{of: map[*graph.Layer]int{}, read: map[*graph.Layer]bool{}, kept: map[*graph.Value]bool{}}
	for s := range p.Stages {
		for _, layer := range p.Stages[s].Layers {
			l.of[layer] = len(l.list)
			l.list = append(l.list, LayerLoad{Layer: layer, Stage: s})
		}
	}
	for _, n := range p.Graph.Nodes {
		l.addNode(n)
	}
	l.addVars(p.Graph.Vars)
	return l.list
}

// LayerTable is the layers as a table, with their sum, in lines of width characters.
func (p *Plan) LayerTable(width int) string {
	rows := [][]string{{"layer", "type", "stage", "output", "parameters", "flops", "resident", "kept"}}
	all := LayerLoad{}
	for _, l := range p.Layers() {
		rows = append(rows, append([]string{l.Layer.Name, l.Layer.Type, fmt.Sprint(l.Stage), l.Output.Shape.String()}, l.cells()...))
		all.Parameters, all.Flops = all.Parameters+l.Parameters, all.Flops+l.Flops
		all.Resident, all.Kept = all.Resident+l.Resident, all.Kept+l.Kept
	}
	rows = append(rows, append([]string{"all", "-", "-", "-"}, all.cells()...))
	return align(rows, width, map[int]bool{0: true, 1: true, 3: true}, 5, 3)
}

// cells are the numbers of a layer's row.
func (l LayerLoad) cells() []string {
	return []string{units.Thousands(l.Parameters), countText(l.Flops), units.Bytes(l.Resident), units.Bytes(l.Kept)}
}

// loads sums the loads of layers up, node by node. A call of [Plan.Layers] owns it.
type loads struct {
	list []LayerLoad
	of   map[*graph.Layer]int
	read map[*graph.Layer]bool // another layer reads its output
	kept map[*graph.Value]bool // its bytes were counted
}

// at is the load of a layer, or one that nobody sees for nodes of no layer.
func (l *loads) at(layer *graph.Layer) *LayerLoad {
	if i, ok := l.of[layer]; ok {
		return &l.list[i]
	}
	return &LayerLoad{}
}

// addNode adds a node's arithmetic, and what it makes or keeps.
func (l *loads) addNode(n *graph.Node) {
	if n.Phase == graph.Update {
		return
	}
	x := l.at(n.Layer)
	x.Flops += n.Cost().Flops
	if n.Phase == graph.Forward && !l.read[n.Layer] {
		x.Output = n.Out[0].Meta // the last node's, unless another layer reads one
	}
	for _, v := range n.In {
		switch {
		case v.Kind != graph.Computed:
		case n.Phase == graph.Forward && v.Node.Layer != n.Layer:
			l.read[v.Node.Layer] = true
			l.at(v.Node.Layer).Output = v.Meta
		case n.Phase == graph.Backward:
			l.keep(viewed(v))
		}
	}
}

// keep counts the bytes of a value that the backward pass reads.
func (l *loads) keep(v *graph.Value) {
	if v.Kind == graph.Computed && v.Node.Phase == graph.Forward && !l.kept[v] {
		l.kept[v] = true
		l.at(v.Node.Layer).Kept += v.Meta.Bytes()
	}
}

// viewed is the value whose memory v is in: an op that touches no bytes only gives
// them another shape.
func viewed(v *graph.Value) *graph.Value {
	for v.Kind == graph.Computed && len(v.Node.In) > 0 && v.Node.Cost().Bytes == 0 {
		v = v.Node.In[0]
	}
	return v
}

// addVars adds the elements and bytes of variables. The optimizer's state of a weight
// is named WEIGHT/STATE.
func (l *loads) addVars(vars []*graph.Value) {
	layers := map[string]*graph.Layer{}
	for _, v := range vars {
		if v.Layer != nil {
			layers[v.Whole().Name] = v.Layer
		}
	}
	for _, v := range vars {
		layer := v.Layer
		for name := v.Whole().Name; layer == nil && strings.Contains(name, "/"); layer = layers[name] {
			name = name[:strings.LastIndexByte(name, '/')]
		}
		if layer == nil {
			continue
		}
		x := l.at(layer)
		x.Resident += v.Meta.Bytes()
		if v.Role == graph.Parameter {
			x.Parameters += int64(v.Meta.Elems())
		}
	}
}

// Loops says, for each layer with loops, in which stage they are. Stages are cut between
// top-level layers, so a loop is never divided among stages.
func (p *Plan) Loops() (list []string) {
	for _, s := range p.Stages {
		for _, l := range s.Layers {
			if l.Iterations > 0 {
				list = append(list, fmt.Sprintf("%s: %d iterations of its loops, all in stage %d", l.Name, l.Iterations, s.Index))
			}
		}
	}
	return list
}
