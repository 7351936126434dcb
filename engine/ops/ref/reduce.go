package ref

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var reductions = map[string]kernel{
	"reduce_sum":      of(reduce),
	"reduce_mean":     of(reduce),
	"reduce_max":      of(reduce),
	"reduce_max_grad": of(reduceMaxGrad),
	"sum_to":          of(sumTo),
	"broadcast_to":    broadcastTo,
	"sum_squares":     of(sumSquares),
}

// over is s with its reduced axes, all if none are named, of size 1.
func over(s shape.Shape, axes []int) shape.Shape {
	keep := s.Clone()
	for i := range keep {
		if len(axes) == 0 || slices.Contains(axes, i) {
			keep[i] = 1
		}
	}
	return keep
}

func reduce(o ops.Reduce, in, out []Array) {
	x, y := in[0], out[0]
	s := x.Meta.Shape
	st := strides(over(s, o.Axes), s)
	seen := make([]bool, len(y.F))
	each(s, func(i int, ix []int) {
		p := at(ix, st)
		if o.Fn != "max" {
			y.F[p] += x.F[i]
		} else if v := x.F[i]; !seen[p] || v > y.F[p] || v != v { // NaN stays
			y.F[p] = v
		}
		seen[p] = true
	})
	if o.Fn == "mean" {
		for i := range y.F {
			y.F[i] *= float64(len(y.F)) / float64(len(x.F))
		}
	}
}

func reduceMaxGrad(_ ops.ReduceMaxGrad, in, out []Array) {
	x, y, dy, dx := in[0], in[1], in[2], out[0]
	st := strides(y.Meta.Shape, x.Meta.Shape)
	given := make([]bool, len(y.F))
	each(x.Meta.Shape, func(i int, ix []int) {
		if p := at(ix, st); !given[p] && x.F[i] == y.F[p] {
			dx.F[i], given[p] = dy.F[p], true
		}
	})
}

func sumTo(_ ops.SumTo, in, out []Array) {
	st := strides(out[0].Meta.Shape, in[0].Meta.Shape)
	each(in[0].Meta.Shape, func(i int, ix []int) { out[0].F[at(ix, st)] += in[0].F[i] })
}

func broadcastTo(_ graph.Op, in, out []Array) error {
	st := strides(in[0].Meta.Shape, out[0].Meta.Shape)
	each(out[0].Meta.Shape, func(i int, ix []int) { move(out[0], i, in[0], at(ix, st)) })
	return nil
}

func sumSquares(_ ops.SumSquares, in, out []Array) {
	for _, x := range in[0].F {
		out[0].F[0] += x * x
	}
}
