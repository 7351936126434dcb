package ref

import "github.com/berth-ml/berth/engine/ops"

var lengths = map[string]kernel{
	"pad_with":         of(padWith),
	"position_weights": of(positionWeights),
}

func padWith(o ops.PadWith, in, out []Array) {
	per := in[0].Meta.Elems() / max(1, in[0].Meta.Shape[0])
	for i, v := range in[0].I {
		if i%per >= int(in[1].I[i/per]) {
			v = int32(o.Value)
		}
		out[0].I[i] = v
	}
}

func positionWeights(o ops.PositionWeights, in, out []Array) {
	for i := range out[0].F {
		length := min(int(in[0].I[i/o.T]), o.T)
		switch {
		case i%o.T >= length:
			out[0].F[i] = 0
		case o.Mean:
			out[0].F[i] = 1 / float64(length)
		default:
			out[0].F[i] = 1
		}
	}
}
