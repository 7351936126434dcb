package ops_test

import (
	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
)

func drawPadWith(t *rapid.T) sample {
	b, rows := num(t, 1, 3, "sequences"), num(t, 1, 4, "positions")
	return sample{op: ops.PadWith{Value: num(t, -1, 1, "value")}, in: []ref.Array{indices(t, 9, b, rows), indices(t, rows+2, b)}}
}

func drawPositionWeights(t *rapid.T) sample {
	rows := num(t, 1, 4, "positions")
	return sample{op: ops.PositionWeights{T: rows, Mean: rapid.Bool().Draw(t, "mean")}, in: []ref.Array{indices(t, rows+2, num(t, 1, 3, "sequences"))}}
}

var badLengths = map[string][]badCase{
	"pad_with": {
		{ops.PadWith{}, metas(f(2, 3), in(2)), "expected i32 [sequences] or [sequences, positions]"},
		{ops.PadWith{}, metas(in(2, 3), in(3)), "lengths is i32[3], expected i32[2]"},
	},
	"position_weights": {
		{ops.PositionWeights{}, metas(in(2)), "sequences of 0 positions"},
		{ops.PositionWeights{T: 2}, metas(f(2)), "lengths is f32[2], expected i32[2]"},
	},
}
