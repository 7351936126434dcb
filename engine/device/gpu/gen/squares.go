package gen

import (
	"fmt"

	"github.com/berth-ml/berth/engine/ops"
)

// Sums of squares have about 48 bits, as two float32: devices without float64 have them
// too. In memory such a sum is the bits of a float64, as [ops.SquareParts] says.

// squares is the text in which a group sums the squares of part GROUP of X, to the pair
// all and rest.
var squares = "\ti64 from = GROUP * per, count = n - from < per ? n - from : per;\n" +
	total("all", "count", "f32 x = X[from + e], p = x * x; ADD(p) c += FMA(x, x, -p);") + "\tf32 rest = finite_f(all) ? (T[0] - all) + U[0] : 0.0f;\n"

func partsOf(w *writer) int { return up(w.elems(0), ops.SumElems) / ops.SumElems }

func squareParams(w *writer, to param) []param {
	return []param{in(0, "X"), to, number("n", w.elems(0)), number("per", ops.SumElems)}
}

func squareParts(w *writer, _ ops.SquareParts) {
	w.groups(partsOf(w), squareParams(w, outInts(0, "Z")), totalShared+squares+writePart)
}

// writePart writes a part.
const writePart = "\tif (LANE == 0 && !STATUS[0]) { u64 b = bits_of(all, rest); Z[2 * GROUP] = (i32)b; Z[2 * GROUP + 1] = (i32)(b >> 32); }\n"

// sumSquares writes parts and adds them up, as the two ops do.
func sumSquares(w *writer, _ ops.SumSquares) {
	parts := partsOf(w)
	if parts == 1 {
		w.groups(1, squareParams(w, out(0, "Z")), totalShared+squares+
			"\tif (LANE == 0 && !STATUS[0]) { f32 s = 0.0f, c = 0.0f; ADD_BITS(bits_of(all, rest)) Z[0] = SUM(s, c); }\n")
		return
	}
	w.scratch = int64(parts) * 8
	to := param{c: "GLOBAL i32* Z", arg: Arg{Role: Scratch}}
	w.groups(parts, squareParams(w, to), totalShared+squares+writePart)
	w.squareTotal([]param{{c: "GLOBAL const i32* X0", arg: Arg{Role: Scratch}}}, []int{parts})
}

func squareTotal(w *writer, _ ops.SquareTotal) {
	var from []param
	var parts []int
	for i, v := range w.node.In {
		from, parts = append(from, inInts(i, fmt.Sprint("X", i))), append(parts, v.Meta.Shape[0])
	}
	w.squareTotal(from, parts)
}

// squareTotal adds up parts in their order.
func (w *writer) squareTotal(from []param, parts []int) {
	body := "\tf32 s = 0.0f, c = 0.0f;\n"
	for i, n := range parts {
		from = append(from, number(fmt.Sprint("n", i), n))
		body += fmt.Sprintf("\tfor (i64 k = 0; k < n%[1]d; k++) { u64 b = (u32)X%[1]d[2 * k] | (u64)(u32)X%[1]d[2 * k + 1] << 32; ADD_BITS(b) }\n", i)
	}
	w.items(1, append(from, out(0, "Z")), body+"\tZ[0] = SUM(s, c);\n")
}
