package ref

import (
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var rangeds = map[string]kernel{"averaged": averaged, "ranged": ranged, "square_parts": of(squareParts), "square_total": of(squareTotal)}

// ranged runs the op on the ranges. It writes over those of the inputs that the
// outputs take the place of.
func ranged(op graph.Op, in, out []Array) error {
	o := op.(ops.Ranged)
	for k, i := range o.Places() {
		if k > 0 || !o.Apart {
			copy(out[k].F, in[i].F)
		}
	}
	in, out = rangesOf(o, in), rangesOf(o, out)
	if _, ok := o.Op.(ops.Averaged); ok {
		return averaged(o.Op, in, out)
	}
	return updates[o.Op.Kind()](o.Op, in, out)
}

// averaged runs the update, and averages the weight that it makes.
func averaged(op graph.Op, in, out []Array) error {
	o := op.(ops.Averaged)
	if err := updates[o.Op.Kind()](o.Op, ops.WithoutAverage(in), ops.WithoutAverage(out)); err != nil {
		return err
	}
	for i, w := range out[0].F {
		out[1].F[i] = in[1].F[i] + (1-o.Decay)*(w-in[1].F[i])
	}
	return nil
}

// rangesOf is the range of each array, in the array's own memory.
func rangesOf(o ops.Ranged, arrays []Array) []Array {
	parts := make([]Array, len(arrays))
	for i, a := range arrays {
		if parts[i] = a; o.Cuts(a.Meta) {
			parts[i] = Floats(a.F[o.From:][:o.Count], o.Count)
		}
	}
	return parts
}

// squareParts writes the bits of each sum, the low half first.
func squareParts(_ ops.SquareParts, in, out []Array) {
	for k := range len(out[0].I) / 2 {
		sum := 0.0
		for _, x := range in[0].F[k*ops.SumElems : min((k+1)*ops.SumElems, len(in[0].F))] {
			sum += x * x
		}
		bits := math.Float64bits(sum)
		out[0].I[2*k], out[0].I[2*k+1] = int32(bits), int32(bits>>32)
	}
}

func squareTotal(_ ops.SquareTotal, in, out []Array) {
	for _, a := range in {
		for k := range len(a.I) / 2 {
			out[0].F[0] += math.Float64frombits(uint64(uint32(a.I[2*k])) | uint64(uint32(a.I[2*k+1]))<<32)
		}
	}
}
