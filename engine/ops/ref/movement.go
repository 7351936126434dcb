package ref

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var movements = map[string]kernel{
	"reshape":    reshape,
	"transpose":  of(transpose),
	"slice":      of(slice),
	"slice_grad": of(sliceGrad),
	"concat":     of(concat),
}

func reshape(_ graph.Op, in, out []Array) error {
	copy(out[0].F, in[0].F)
	copy(out[0].I, in[0].I)
	return nil
}

func transpose(o ops.Transpose, in, out []Array) {
	own := in[0].Meta.Shape.Strides()
	st := make([]int, len(own))
	for i, p := range o.Perm {
		st[i] = own[p]
	}
	each(out[0].Meta.Shape, func(i int, ix []int) { move(out[0], i, in[0], at(ix, st)) })
}

func slice(o ops.Slice, in, out []Array) {
	st := in[0].Meta.Shape.Strides()
	start := at(o.Start, st)
	each(out[0].Meta.Shape, func(i int, ix []int) { move(out[0], i, in[0], start+at(ix, st)) })
}

func sliceGrad(o ops.SliceGrad, in, out []Array) {
	st := out[0].Meta.Shape.Strides()
	start := at(o.Start, st)
	each(in[0].Meta.Shape, func(i int, ix []int) { out[0].F[start+at(ix, st)] = in[0].F[i] })
}

func concat(o ops.Concat, in, out []Array) {
	st := out[0].Meta.Shape.Strides()
	start := 0
	for _, x := range in {
		each(x.Meta.Shape, func(i int, ix []int) { move(out[0], start+at(ix, st), x, i) })
		start += x.Meta.Shape[o.Axis] * st[o.Axis]
	}
}
