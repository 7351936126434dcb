package ref

import "github.com/berth-ml/berth/engine/ops"

var casts = map[string]kernel{"cast": of(cast)}

// cast converts float32 numbers: those of an array that are none are rounded first.
func cast(o ops.Cast, in, out []Array) {
	for i, x := range in[0].I {
		out[0].F[i] = float64(float32(x))
	}
	for i, x := range in[0].F {
		switch x := float32(x); o.To {
		case "f32": // from bf16 or i8b
			out[0].F[i] = float64(x)
		case "i32":
			out[0].I[i] = ops.Truncate(x)
		case "bf16":
			out[0].F[i] = float64(ops.RoundBF16(x))
		default:
			out[0].F[i] = float64(ops.RoundF16(x))
		}
	}
}
