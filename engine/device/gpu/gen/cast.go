package gen

import (
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var casts = map[string]template{"cast": of(cast)}

// conversions are the bodies that convert element i, by ops.Cast.To. Roundings work on the
// bits of numbers, and so does widen, of stored bfloat16: a NaN keeps its first ones, and what half-precision has subnormal is
// rounded to a multiple of 2^-24, the last bit of 0.5.
var conversions = map[string]string{
	"f32":   "\tZ[i] = (f32)X[i];\n",
	"widen": "\tZ[i] = (i32)((u32)X[i] << 16);\n",
	"int8":  "\tZ[i] = int8_f(X + i / d * pitch, i % d);\n",
	"i32": `	f32 x = X[i];
	Z[i] = x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x < -2147483648.0f ? -2147483647 - 1 : (i32)x;
`,
	"bf16": `	u32 b = (u32)X[i];
	Z[i] = (i32)(((b & 0x7fffffffu) > 0x7f800000u ? b | 0x400000u : b + 0x7fffu + (b >> 16 & 1u)) & 0xffff0000u);
`,
	"f16": `	u32 b = (u32)X[i], sign = b & 0x80000000u, size = b & 0x7fffffffu;
	if (size > 0x7f800000u) size |= 0x400000u;
	else if (size >= 0x477ff000u) size = 0x7f800000u;
	else if (size >= 0x38800000u) size = (size + 0xfffu + (size >> 13 & 1u)) & 0xffffe000u;
	else size = (u32)AS_INT(AS_FLOAT((i32)size) + 0.5f - 0.5f);
	Z[i] = (i32)(sign | size);
`,
}

// cast converts each element: see ops.Cast.
func cast(w *writer, o ops.Cast) {
	x, z, to := inInts(0, "X"), outInts(0, "Z"), o.To
	var sizes []param
	switch m := w.node.In[0].Meta; {
	case m.DType == shape.BFloat16:
		x, to = inHalves(0, "X"), "widen"
	case m.DType == shape.Int8Block:
		_, d := m.Rows()
		x, z, to = inBytes(0, "X"), out(0, "Z"), "int8"
		sizes = []param{number("d", d), number("pitch", shape.BlocksBytes(d))}
	case to == "f32":
		z = out(0, "Z")
	case to == "i32":
		x = in(0, "X")
	}
	w.items(w.outElems(0), append(sizes, x, z), conversions[to])
}
