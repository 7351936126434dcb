package timing

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
)

// contents makes up a tensor: the first values of variables, elsewhere positive
// numbers, so that everything stays finite.
func contents(v *graph.Value, limit int, dst []byte) {
	switch {
	case v.Kind == graph.Variable && v.Range == nil:
		const seed = 1
		models.Fill(v, seed, dst)
	case v.Meta.DType == shape.Float32:
		x := shape.View[float32](dst)
		for i := range x {
			x[i] = float32(1+mixed(i)%256) / 4096
		}
	case v.Meta.DType == shape.Int32 && limit > 1:
		x := shape.View[int32](dst)
		for i := range x {
			x[i] = int32(mixed(i) % uint32(limit))
		}
	default:
		clear(dst)
	}
}

// mixed is a hash of a number.
func mixed(i int) uint32 {
	x := uint32(i) * 2654435761
	return x ^ x>>15
}

// idLimits finds, for the whole numbers of a graph that name rows or classes, the
// number of those; 0 elsewhere.
func idLimits(g *graph.Graph) *graph.Table[int] {
	limits := graph.NewTable[int](g)
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		most := idLimit(n)
		if len(n.Out) > 0 && n.Out[0].Meta.DType == shape.Int32 {
			most = *limits.At(n.Out[0]) // the same ids in another shape
		}
		for _, v := range n.In {
			if at := limits.At(v); v.Meta.DType == shape.Int32 && most > 0 && (*at == 0 || most < *at) {
				*at = most
			}
		}
	}
	return limits
}

// idLimit is the number of rows or classes that a node's ids name, 0 if it has no
// ids.
func idLimit(n *graph.Node) int {
	first := func(v *graph.Value) int { return v.Meta.Shape[0] }
	last := func(v *graph.Value) int { return v.Meta.Shape[v.Meta.Shape.Rank()-1] }
	switch n.Op.Kind() {
	case "gather":
		return first(n.In[0])
	case "scatter_add":
		return first(n.Out[0])
	}
	for _, v := range n.In {
		if v.Meta.DType == shape.Float32 && v.Meta.Shape.Rank() > 0 {
			return last(v)
		}
	}
	return 0
}
