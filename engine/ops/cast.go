package ops

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// castOps are the rows of the op table that are in this file.
var castOps = []graph.Op{Cast{}}

// Cast converts elements to another type. Nothing else in Berth converts.
//
//   - To "f32", from i32: to the nearest float32, half-way between two to the even one.
//   - To "f32", from bf16 or i8b as weights are stored in it: the same number.
//   - To "i32", from f32: towards zero. NaN becomes 0, and numbers beyond the range its
//     nearest end.
//   - To "bf16" or "f16", from f32: rounded to the nearest number of that type, half-way
//     to the even one, and kept as f32. NaN stays NaN, and what lies beyond the largest
//     number becomes infinite.
type Cast struct{ To string }

// Kind is "cast".
func (o Cast) Kind() string { return "cast" }

// Infer changes the type of the elements.
func (o Cast) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	from, to := shape.Float32, shape.Float32
	switch o.To {
	case "f32":
		if from = shape.Int32; in[0].DType.Stored() {
			from = in[0].DType
		}
	case "i32":
		to = shape.Int32
	case "bf16", "f16":
	default:
		return nil, fmt.Errorf("no type %q to cast to: use f32, i32, bf16 or f16", o.To)
	}
	if in[0].DType != from {
		return nil, fmt.Errorf("input 0 is %v, expected %v to cast to %s", in[0], from, o.To)
	}
	return one(shape.Meta{DType: to, Shape: in[0].Shape.Clone()}), nil
}

// Grad passes through a rounding. Whole numbers and stored weights have no gradient.
func (o Cast) Grad(_ *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	if o.To == "f32" || o.To == "i32" {
		return noGrad(n)
	}
	return dy
}

// Cost is one operation per element.
func (o Cast) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, out[0].Elems(), in, out) }

// CastTo converts x to "f32", "i32", "bf16" or "f16": see [Cast].
func CastTo(b *graph.Builder, x *graph.Value, to string) *graph.Value { return b.One(Cast{to}, x) }

// Truncate is the whole number next to x towards zero, within int32; 0 for NaN.
func Truncate(x float32) int32 {
	switch {
	case x != x:
		return 0
	case x >= math.MaxInt32: // that is 2^31
		return math.MaxInt32
	case x < math.MinInt32:
		return math.MinInt32
	}
	return int32(x)
}

// RoundF16 is x rounded to the nearest IEEE half-precision number, half-way between two
// to the even one. NaN stays NaN.
func RoundF16(x float32) float32 {
	const (
		overflow = 0x477ff000 // 65520, half-way to a number beyond the largest
		normal   = 0x38800000 // 2^-14
		dropped  = 13         // bits of the mantissa
	)
	bits := math.Float32bits(x)
	sign, size := bits&(1<<31), bits&^(1<<31)
	switch {
	case x != x:
		return math.Float32frombits(bits | 1<<22)
	case size >= overflow:
		size = math.Float32bits(float32(math.Inf(1)))
	case size >= normal:
		size = (size + 1<<(dropped-1) - 1 + size>>dropped&1) &^ (1<<dropped - 1)
	default: // a multiple of 2^-24, which is the last bit of 0.5
		size = math.Float32bits(float32(math.Float32frombits(size)+0.5) - 0.5)
	}
	return math.Float32frombits(sign | size)
}
