package ref

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// kernelOf is the kernel of an op: the one of its kind, or that which it brings, on
// numbers rounded to float32; nil if there is none.
func kernelOf(op graph.Op) kernel {
	switch op.(type) {
	case graph.Computer:
		return compute
	case graph.Mapper:
		return mapped
	}
	return kernels[op.Kind()]
}

func compute(op graph.Op, in, out []Array) error {
	x, y := tensors(in), tensors(out)
	err := op.(graph.Computer).Compute(x, y)
	for i, t := range y {
		widen(out[i], t)
	}
	return err
}

func mapped(op graph.Op, in, out []Array) error {
	x, y := tensors(in), tensors(out)
	var b []float32
	if len(x) > 1 {
		b = x[1].F
	}
	op.(graph.Mapper).Map(y[0].F, x[0].F, b)
	widen(out[0], y[0])
	return nil
}

// tensors are copies of arrays in float32.
func tensors(arrays []Array) []graph.Tensor {
	ts := make([]graph.Tensor, len(arrays))
	for i, a := range arrays {
		ts[i].Meta = a.Meta
		if a.Meta.DType == shape.Int32 {
			ts[i].I = append([]int32{}, a.I...)
			continue
		}
		ts[i].F = make([]float32, len(a.F))
		for j, f := range a.F {
			ts[i].F[j] = float32(f)
		}
	}
	return ts
}

// widen copies a tensor to an array.
func widen(a Array, t graph.Tensor) {
	copy(a.I, t.I)
	for j, f := range t.F {
		a.F[j] = float64(f)
	}
}
