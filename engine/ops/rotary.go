package ops

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// rotaryOps are the rows of the op table that are in this file.
var rotaryOps = []graph.Op{Rotary{}}

// Rotary turns queries and keys by their positions (Su et al., "RoFormer", 2021): x
// [B,T,N*Size], N heads side by side, of which the first Heads are turned and the others
// stay. At position p, numbers i and i+Size/2 of a head are a point that turns about 0 by
// the angle p*f, f being frequency i of [Rotary.Frequencies]. Positions are 0, 1, … along T,
// or a second input i32[B,T]; none is below 0. Inverse turns back: the gradient.
type Rotary struct {
	Size, Heads int
	Base        float64
	Scaling     RotaryScaling
	Inverse     bool
}

// RotaryScaling stretches the frequencies of a [Rotary], so that it takes longer texts than
// it was trained on. Of its Kinds,
//
//   - "" does not;
//   - linear divides all by Factor (Chen et al., "Extending Context Window of Large Language
//     Models via Positional Interpolation", 2023);
//   - ntk multiplies the base by Factor^(Size/(Size-2)) (bloc97, "NTK-aware scaled RoPE", 2023);
//   - llama3 divides by Factor those that turn less than Low times in Context positions, none
//     that turn more than High times, and those between in part (Grattafiori et al., "The
//     Llama 3 Herd of Models", 2024).
type RotaryScaling struct {
	Kind              string
	Factor, Low, High float64
	Context           int
}

// Kind is "rotary".
func (o Rotary) Kind() string { return "rotary" }

// Infer keeps the metadata of x.
func (o Rotary) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if len(in) != 1 {
		if err := arity(in, 2); err != nil {
			return nil, err
		}
	}
	x := in[0]
	if x.DType != shape.Float32 || x.Shape.Rank() != 3 {
		return nil, fmt.Errorf("input is %v, expected f32 [batch, time, heads]", x)
	}
	switch {
	case o.Size < 2 || o.Size%2 != 0:
		return nil, fmt.Errorf("heads of %d numbers: rotary positions turn pairs, so give an even number", o.Size)
	case o.Heads < 1 || x.Shape[2]%o.Size != 0 || o.Heads*o.Size > x.Shape[2]:
		return nil, fmt.Errorf("width %d does not hold %d heads of %d and others of that size", x.Shape[2], o.Heads, o.Size)
	case !(o.Base > 0) || math.IsInf(o.Base, 0):
		return nil, fmt.Errorf("a base of %v: give a number above 0", o.Base)
	}
	if err := o.Scaling.check(o.Size); err != nil {
		return nil, err
	}
	if len(in) == 2 {
		return one(x), expect("positions", in[1], shape.I32(x.Shape[0], x.Shape[1]))
	}
	return one(x), nil
}

// check says what is wrong with a scaling.
func (s RotaryScaling) check(size int) error {
	switch s.Kind {
	case "":
		return nil
	case "linear", "ntk", "llama3":
	default:
		return fmt.Errorf("no scaling %q: use linear, ntk or llama3", s.Kind)
	}
	switch {
	case !(s.Factor >= 1) || math.IsInf(s.Factor, 0):
		return fmt.Errorf("a scaling by %v: give a factor of at least 1", s.Factor)
	case s.Kind == "ntk" && size < 4:
		return fmt.Errorf("heads of %d numbers: scaling ntk takes at least 4", size)
	case s.Kind == "llama3" && !(s.Low > 0 && s.High > s.Low && s.Context > 0):
		return fmt.Errorf("scaling llama3 between %v and %v turns in %d positions: give numbers above 0, the first below the second", s.Low, s.High, s.Context)
	}
	return nil
}

// Frequencies are the Size/2 angles, in radians, by which one position turns.
func (o Rotary) Frequencies() []float64 {
	base, s := o.Base, o.Scaling
	if s.Kind == "ntk" {
		base *= math.Pow(s.Factor, float64(o.Size)/float64(o.Size-2))
	}
	all := make([]float64, o.Size/2)
	for i := range all {
		f := math.Pow(base, -2*float64(i)/float64(o.Size))
		switch s.Kind {
		case "linear":
			f /= s.Factor
		case "llama3":
			turns := f * float64(s.Context) / (2 * math.Pi)
			kept := max(0, min(1, (turns-s.Low)/(s.High-s.Low)))
			f = f*kept + f/s.Factor*(1-kept)
		}
		all[i] = f
	}
	return all
}

// Turns are the [Rotary.Frequencies] in units of 2^-64 turns, without whole turns. The low
// 64 bits of a position times one are its angle, exactly, so that kernels agree however
// large positions are. Those of Inverse go the other way.
func (o Rotary) Turns() []uint64 {
	all := make([]uint64, o.Size/2)
	for i, f := range o.Frequencies() {
		_, part := math.Modf(f / (2 * math.Pi))
		turn := uint64(math.Ldexp(part, 63)) << 1 // below 2^63, as float64 holds it
		if o.Inverse {
			turn = -turn
		}
		all[i] = turn
	}
	return all
}

// Angle is that of a position, in radians from -π to π.
func Angle(turn uint64, position int32) float64 {
	return float64(int64(turn*uint64(position))) * (math.Pi / (1 << 63))
}

// Grad turns back.
func (o Rotary) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	dx := noGrad(n)
	o.Inverse = !o.Inverse
	dx[0] = b.One(o, append([]*graph.Value{dy[0]}, n.In[1:]...)...)
	return dx
}

// Alias lets y take the place of x.
func (o Rotary) Alias() []int { return []int{0} }

// Cost is six operations for each point, and about forty for its angle, which all heads
// share.
func (o Rotary) Cost(in, out []shape.Meta) graph.Cost {
	points := in[0].Shape[0] * in[0].Shape[1] * o.Size / 2
	return perElem(6*o.Heads+40, points, in, out)
}
