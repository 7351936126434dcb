package kernelstest

import (
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// drawSGD draws an update with or without momentum.
func drawSGD(s Source) Sample {
	op := ops.SGD{WeightDecay: 0.1, Scale: 0.25, Clip: s.Bool("clip")}
	x := s.Shape("x", 0, 2, 90)
	in := []ref.Array{s.Normal(x...), s.Normal(x...), s.Floats(0, 1)}
	if s.Bool("momentum") {
		op.Momentum, op.Nesterov = 0.9, s.Bool("nesterov")
		in = append(in, s.Normal(x...))
	}
	if op.Clip {
		in = append(in, s.Floats(0, 1))
	}
	return Of(op, 1e-6, in...)
}

// drawAdam draws an update by Adam or AdamW.
func drawAdam(s Source) Sample {
	op := ops.Adam{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.1, Scale: 0.25, Decoupled: s.Bool("decoupled"), Clip: s.Bool("clip")}
	x := s.Shape("x", 0, 2, 90)
	in := []ref.Array{s.Normal(x...), s.Normal(x...), s.Normal(x...), s.Floats(0.01, 1, x...), s.IDs(1000), s.Floats(0, 0.1)}
	if op.Clip {
		in = append(in, s.Floats(0, 1))
	}
	return Of(op, 5e-6, in...)
}

// drawAveraged draws an update with an average of the weight.
func drawAveraged(s Source) Sample {
	var x Sample
	switch {
	case s.Bool("adam"):
		x = drawAdam(s)
	case s.Bool("lion"):
		x = drawLion(s, s.Shape("x", 0, 2, 90))
	default:
		x = drawSGD(s)
	}
	in := slices.Insert(x.In, 1, s.Normal(x.In[0].Meta.Shape...))
	return Of(ops.Averaged{Op: x.Op, Decay: 0.75}, 5e-6, in...)
}

// drawRanged draws the update of a range of a tensor. The optimizer's state has the
// range alone.
func drawRanged(s Source) Sample {
	x := s.Shape("x", 1, 2, 90)
	from := rapid.IntRange(0, x.Elems()).Draw(s.T, "from")
	o := ops.Ranged{From: from, Count: rapid.IntRange(0, x.Elems()-from).Draw(s.T, "count"), Apart: s.Bool("apart")}
	in := []ref.Array{s.Normal(x...), s.Normal(x...)}
	clip := s.Bool("clip")
	if s.Bool("lion") {
		lion := drawLion(s, x)
		o.Op, in, clip = lion.Op, lion.In, false // it has drawn that
		in[2].F, in[2].Meta.Shape = in[2].F[:o.Count], shape.Of(o.Count)
	} else if s.Bool("adam") {
		o.Op = ops.Adam{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.1, Scale: 0.25, Clip: clip}
		in = append(in, s.Normal(o.Count), s.Floats(0.01, 1, o.Count), s.IDs(1000), s.Floats(0, 0.1))
	} else {
		o.Op = ops.SGD{Momentum: 0.9, Nesterov: s.Bool("nesterov"), WeightDecay: 0.1, Scale: 0.25, Clip: clip}
		in = append(in, s.Floats(0, 1), s.Normal(o.Count))
	}
	if clip {
		in = append(in, s.Floats(0, 1))
	}
	if s.Bool("averaged") {
		o.Op, in = ops.Averaged{Op: o.Op, Decay: 0.75}, slices.Insert(in, 1, s.Normal(o.Count))
	}
	return Of(o, 5e-6, in...)
}

// drawLion draws an update whose signs are those of numbers that every kernel has exactly:
// near 0, a rounding would turn one.
func drawLion(s Source, x shape.Shape) Sample {
	op := ops.Lion{Beta1: 0.75, Beta2: 0.875, WeightDecay: 0.1, Scale: 0.25, Clip: s.Bool("clip")}
	in := []ref.Array{s.Normal(x...), drawEighths(s, x), drawEighths(s, x), s.Floats(0, 0.1)}
	if op.Clip {
		in = append(in, ref.Floats([]float64{0.5}))
	}
	return Of(op, 1e-6, in...)
}

// drawEighths draws multiples of an eighth, 0 among them.
func drawEighths(s Source, x shape.Shape) ref.Array {
	a := s.Normal(x...)
	for i, f := range a.F {
		a.F[i] = math.Round(8*f) / 8
	}
	return a
}

// drawWholeNumbers draws numbers whose squares add up exactly, in any order: sums of
// squares are compared bit by bit.
func drawWholeNumbers(s Source) ref.Array {
	a := s.Normal(s.Shape("x", 0, 2, 500)...)
	for i, x := range a.F {
		a.F[i] = math.Round(8 * x)
	}
	return a
}

// drawSquares draws up to four sums of squares.
func drawSquares(s Source) []ref.Array {
	in := []ref.Array{s.Floats(0, 9)}
	for range s.Dim("more", 3) {
		in = append(in, s.Floats(0, 9))
	}
	return in
}

// drawSquareTotal draws the squares of up to four ranges, in parts.
func drawSquareTotal(s Source) Sample {
	var in []ref.Array
	for range s.Size("ranges", 4) {
		in = append(in, mustRun(s, ops.SquareParts{}, s.Normal(s.Size("elements", 90)))...)
	}
	return Of(ops.SquareTotal{}, 1e-6, in...)
}
