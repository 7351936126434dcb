package ref

import (
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/rng"
)

var dropouts = map[string]kernel{"dropout": of(dropout)}

// mask is the factor by which dropout multiplies element i of the global batch.
func mask(k rng.Key, p float64, i int, step int32) float64 {
	if !ops.Kept(p, k.At(uint64(i)/4, uint32(step))[i%4]) {
		return 0
	}
	return 1 / (1 - p)
}

func dropout(o ops.Dropout, in, out []Array) {
	s := in[0].Meta.Shape
	first := int(in[2].I[0]) * s[1:].Elems()
	for i, x := range in[0].F {
		if m := mask(o.Key(), o.P, first+i, in[1].I[0]); m != 0 { // a dropped NaN or Inf is 0 too
			out[0].F[i] = x * m
		}
	}
}
