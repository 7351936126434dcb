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
	"mse":                of(func(w *writer, _ ops.MSE) { w.pairSum("f32 d = X[e] - Y[e]; s = FMA(d, d, s);") }),
	"mse_grad":           of(func(w *writer, _ ops.MSEGrad) { w.pairGrad("2.0f * (X[i] - Y[i]) * D[0]") }),
	"bce": of(func(w *writer, _ ops.BCE) {
		w.pairSum("f32 x = X[e]; s += (x > 0.0f ? x : 0.0f) - x * Y[e] + log1p_f(exp_f(x < 0.0f ? x : -x));")
	}),
	"bce_grad":       of(func(w *writer, _ ops.BCEGrad) { w.pairGrad("(sigmoid_f(X[i]) - Y[i]) * D[0]") }),
	"binary_correct": of(func(w *writer, _ ops.BinaryCorrect) { w.pairSum("s += (X[e] > 0.0f) == (Y[e] > 0.5f) ? 1.0f : 0.0f;") }),
	"softmax":        func(w *writer, _ graph.Op) error { w.softmax("exp_f(X[i] - m) / s"); return nil },
	"log_softmax":    func(w *writer, _ graph.Op) error { w.softmax("X[i] - m - log_f(s)"); return nil },
}

// pairSum sums over the elements of inputs 0 and 1.
func (w *writer) pairSum(c string) {
	w.groups(1, []param{in(0, "X"), in(1, "Y"), out(0, "Z"), number("n", w.elems(0))}, sumLanes("\tfor (i64 e = LANE; e < n; e += 64) { "+c+" }\n", "Z[0]"))
}

// pairGrad writes z = c, of inputs 0, 1 and the scalar 2.
func (w *writer) pairGrad(c string) {
	n := w.elems(0)
	w.call(n, []param{in(0, "X"), in(1, "Y"), in(2, "D"), out(0, "Z"), number("n", n)}, "\ti64 i = ITEM;\n\tif (i >= n) return;\n\tZ[i] = "+c+";\n")
}

// rows is the rows of input 0, and their length.
func (w *writer) rows() (rows, cols int) {
	s := w.node.In[0].Meta.Shape
	cols = s.Dim(-1)
	if cols == 0 {
		return 0, 0
	}
	return s.Elems() / cols, cols
}

// maxAndSum gives m, the largest number of row r of X, and s, the sum of exp(x-m), to
// all lanes of a group.
const maxAndSum = `	SHARED f32 T[64];
	i64 r = GROUP;
	f32 m = -INF_F, s = 0.0f;
	for (i64 e = LANE; e < cols; e += 64) { f32 v = X[r * cols + e]; m = m != m ? m : v > m || v != v ? v : m; }
	T[LANE] = m;
	BARRIER;
	for (i64 h = 32; h > 0; h /= 2) {
		if (LANE < h) { f32 a = T[LANE], b = T[LANE + h]; T[LANE] = a != a ? a : b > a || b != b ? b : a; }
		BARRIER;
	}
	m = T[0];
	BARRIER;
	for (i64 e = LANE; e < cols; e += 64) s += exp_f(X[r * cols + e] - m);
	T[LANE] = s;
	BARRIER;
	for (i64 h = 32; h > 0; h /= 2) {
		if (LANE < h) T[LANE] = T[LANE] + T[LANE + h];
		BARRIER;
	}
	s = T[0];
`

// softmax writes z = c of each element i of a row.
func (w *writer) softmax(c string) {
	rows, cols := w.rows()
	w.groups(rows, []param{in(0, "X"), out(0, "Z"), number("cols", cols)},
		maxAndSum+"\tif (!STATUS[0]) for (i64 i = r * cols + LANE; i < r * cols + cols; i += 64) Z[i] = "+c+";\n")
}

// failedClass is the status of a target that is no class.
const failedClass = "1"

// crossEntropy writes each row's log-sum-exp and its loss, and sums the losses.
func crossEntropy(w *writer, _ ops.CrossEntropy) {
	rows, cols := w.rows()
	w.scratch = int64(rows) * 4
	w.groups(rows, []param{in(0, "X"), inInts(1, "Y"), out(1, "L"), scratchAt(0, "S"), number("cols", cols)}, maxAndSum+`	if (LANE == 0 && !STATUS[0]) {
		i64 t = Y[r];
		f32 l = log_f(s) + m;
		L[r] = l;
		if (t < 0 || t >= cols) FAIL(`+failedClass+`); else S[r] = l - X[r * cols + t];
	}
`)
	w.groups(1, []param{scratchAt(0, "S"), out(0, "Z"), number("n", rows)}, sumLanes("\tfor (i64 e = LANE; e < n; e += 64) s += S[e];\n", "Z[0]"))
}

func crossEntropyGrad(w *writer, _ ops.CrossEntropyGrad) {
	rows, cols := w.rows()
	n := rows * cols
	w.call(n, []param{in(0, "X"), inInts(1, "Y"), in(2, "L"), in(3, "D"), out(0, "Z"), number("cols", cols), number("n", n)}, `	i64 i = ITEM;
	if (i >= n) return;
	i64 r = i / cols, t = Y[r];
	if (t < 0 || t >= cols) { FAIL(`+failedClass+`); return; }
	f32 v = exp_f(X[i] - L[r]) * D[0];
	Z[i] = i - r * cols == t ? v - D[0] : v;
`)
}

func correct(w *writer, _ ops.Correct) {
	rows, cols := w.rows()
	w.groups(1, []param{in(0, "X"), inInts(1, "Y"), out(0, "Z"), number("rows", rows), number("cols", cols)}, sumLanes(`	for (i64 r = LANE; r < rows; r += 64) {
		i64 best = 0, t = Y[r];
		if (t < 0 || t >= cols) FAIL(`+failedClass+`);
		for (i64 c = 1; c < cols; c++) if (X[r * cols + c] > X[r * cols + best]) best = c;
		s += best == t ? 1.0f : 0.0f;
	}
`, "Z[0]"))
}

// failedFinite is the status of a number that is not finite.
const failedFinite = "2"

func checkFinite(w *writer, _ ops.CheckFinite) {
	w.call(1, []param{in(0, "X"), out(0, "Z")}, "\tif (ITEM == 0) { if (finite_f(X[0])) Z[0] = X[0]; else FAIL("+failedFinite+"); }\n")
}
