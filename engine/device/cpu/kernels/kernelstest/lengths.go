package kernelstest

import (
	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

var lengthCases = map[string]func(s Source) Sample{
	"pad_with": func(s Source) Sample {
		op := ops.PadWith{Value: rapid.IntRange(-1, 1).Draw(s.T, "value")}
		b, t := s.Dim("b", 3), s.Size("t", 20)
		if s.Bool("one number") {
			return Of(op, 0, s.IDs(99, b), s.Lengths(b, 1))
		}
		return Of(op, 0, s.IDs(99, b, t), s.Lengths(b, t))
	},
	"position_weights": func(s Source) Sample {
		b, t := s.Dim("b", 3), s.Size("t", 20)
		return Of(ops.PositionWeights{T: t, Mean: s.Bool("mean")}, 1e-7, s.Lengths(b, t))
	},
}

// padded draws whether some targets are those of padding.
func (s Source) padded(targets ref.Array) bool {
	if !s.Bool("padded") {
		return false
	}
	for i := range targets.I {
		if s.Rng.IntN(3) == 0 {
			targets.I[i] = -1
		}
	}
	return true
}

// Lengths are those of b sequences of t positions, and some that no sequence has.
func (s Source) Lengths(b, t int) ref.Array {
	a := ref.New(shape.I32(b))
	for i := range a.I {
		a.I[i] = int32(s.Rng.IntN(t+3) - 1)
	}
	return a
}
