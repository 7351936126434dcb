package ops

import (
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// NarrowBF16 stores each number of src as bfloat16, rounded as [RoundBF16] says: within a
// relative 2^-8 of numbers from 2^-126 up. dst has as many elements.
func NarrowBF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = uint16(math.Float32bits(RoundBF16(x)) >> 16)
	}
}

// again is x, for a backward pass. Where x is widened from bfloat16, it is widened once
// more: the first one would take memory from the forward pass on.
func again(b *graph.Builder, x *graph.Value) *graph.Value {
	if x.Node == nil {
		return x
	}
	if o, ok := x.Node.Op.(Cast); ok && x.Node.In[0].Meta.DType == shape.BFloat16 {
		return b.One(o, x.Node.In[0])
	}
	return x
}
