package gen

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var rowwise = map[string]template{
	"cross_entropy":      of(crossEntropy),
	"cross_entropy_grad": of(crossEntropyGrad),
	"correct":            of(correct),
	"check_finite":       of(checkFinite),
	"mse":                of(func(w *writer, _ ops.MSE) { w.pairSum("f32 d = X[e] - Y[e]; ADD(d * d)") }),
	"bce": of(func(w *writer, _ ops.BCE) {
		w.pairSum("f32 x = X[e]; ADD((x > 0.0f ? x : 0.0f) - x * Y[e] + log1p_f(exp_f(x < 0.0f ? x : -x)))")
	}),
	"binary_correct": of(func(w *writer, _ ops.BinaryCorrect) { w.pairSum("ADD((X[e] > 0.0f) == (Y[e] > 0.5f) ? 1.0f : 0.0f)") }),
	"softmax":        func(w *writer, _ graph.Op) error { w.softmax("exp_f(X[i] - m) / all"); return nil },
	"log_softmax":    func(w *writer, _ graph.Op) error { w.softmax("X[i] - m - log_f(all)"); return nil },
}

// pairSum sums over the elements of inputs 0 and 1: step adds element e by ADD.
func (w *writer) pairSum(step string) {
	w.groups(1, []param{in(0, "X"), in(1, "Y"), out(0, "Z"), number("n", w.elems(0))}, totalShared+total("all", "n", step)+writeAll)
}

// writeAll writes the one number that a group computes.
const writeAll = "\tif (LANE == 0 && !STATUS[0]) Z[GROUP] = all;\n"

// rows is the rows of input 0, and their length.
func (w *writer) rows() (rows, cols int) {
	s := w.node.In[0].Meta.Shape
	cols = s.Dim(-1)
	if cols == 0 {
		return 0, 0
	}
	return s.Elems() / cols, cols
}

// maxAndSum gives m, the largest number of the row X[from], X[from+1] …, and all, the sum of
// exp(x-m), to all lanes of a group.
var maxAndSum = foldShared + "\ti64 from = GROUP * cols;\n" + most("m", "cols", "X[from + e]") + sum("all", "cols", "s += exp_f(X[from + e] - m);")

// softmax writes z = c of each element i of a row.
func (w *writer) softmax(c string) {
	rows, cols := w.rows()
	w.groups(rows, []param{in(0, "X"), out(0, "Z"), number("cols", cols)},
		maxAndSum+"\tif (!STATUS[0]) for (i64 i = from + LANE; i < from + cols; i += LANES) Z[i] = "+c+";\n")
}

// crossEntropy writes each row's log-sum-exp and its loss, and sums the losses.
func crossEntropy(w *writer, o ops.CrossEntropy) {
	rows, cols := w.rows()
	w.scratch = int64(rows) * 4
	w.groups(rows, []param{site, in(0, "X"), inInts(1, "Y"), out(1, "L"), scratchAt(0, "S"), number("cols", cols), paddedRows(o.Padded)}, maxAndSum+`	if (LANE == 0 && !STATUS[0]) {
		i64 t = Y[GROUP];
		i64 padding = padded && t == -1;
		f32 l = padding ? 0.0f : log_f(all) + m;
		L[GROUP] = l;
		if (padding) S[GROUP] = 0.0f; else if (t < 0 || t >= cols) FAIL; else S[GROUP] = l - X[from + t];
	}
`)
	w.groups(1, []param{scratchAt(0, "S"), out(0, "Z"), number("n", rows)}, totalShared+total("all", "n", "ADD(S[e])")+writeAll)
}

func crossEntropyGrad(w *writer, o ops.CrossEntropyGrad) {
	rows, cols := w.rows()
	n := rows * cols
	w.items(n, []param{site, in(0, "X"), inInts(1, "Y"), in(2, "L"), in(3, "D"), out(0, "Z"), number("cols", cols), paddedRows(o.Padded)}, `	i64 r = i / cols, t = Y[r];
	if (padded && t == -1) { Z[i] = 0.0f; return; }
	if (t < 0 || t >= cols) { FAIL; return; }
	f32 v = exp_f(X[i] - L[r]) * D[0];
	Z[i] = i - r * cols == t ? v - D[0] : v;
`)
}

// paddedRows is the parameter that tells whether a row whose target is -1 is padding.
func paddedRows(padded bool) param {
	if padded {
		return number("padded", 1)
	}
	return number("padded", 0)
}

// firstLargest is the text that finds at, the first largest number of row r.
const firstLargest = "i64 at = 0; for (i64 k = 1; k < cols; k++) if (X[r * cols + k] > X[r * cols + at]) at = k;"

func correct(w *writer, o ops.Correct) {
	rows, cols := w.rows()
	w.groups(1, []param{site, in(0, "X"), inInts(1, "Y"), out(0, "Z"), number("rows", rows), number("cols", cols), paddedRows(o.Padded)}, foldShared+
		sum("all", "rows", "i64 r = e, t = Y[r]; if ((t < 0 && !(padded && t == -1)) || t >= cols) FAIL; "+firstLargest+" s += at == t ? 1.0f : 0.0f;")+writeAll)
}

func checkFinite(w *writer, _ ops.CheckFinite) {
	w.items(1, []param{site, in(0, "X"), out(0, "Z")}, "\tif (finite_f(X[0])) Z[0] = X[0]; else FAIL;\n")
}
