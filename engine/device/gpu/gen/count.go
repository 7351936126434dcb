package gen

import "github.com/berth-ml/berth/engine/ops"

var counts = map[string]template{
	"outcome":        of(outcome),
	"binary_outcome": of(binaryOutcome),
	"rank":           of(rank),
	"tally":          of(tally),
}

// classed adds a run of a kernel with a body for each row r of logits X and its target t.
func (w *writer) classed(padded bool, body string) {
	rows, cols := w.rows()
	w.items(rows, []param{site, in(0, "X"), inInts(1, "Y"), outInts(0, "Z"), number("cols", cols), paddedRows(padded)},
		"\ti64 r = i, t = Y[r];\n\tif (padded && t == -1) { Z[i] = -1; return; }\n\tif (t < 0 || t >= cols) { FAIL; return; }\n"+body)
}

func outcome(w *writer, o ops.Outcome) {
	w.classed(o.Padded, "\t"+firstLargest+"\n\tZ[i] = (i32)(t * cols + at);\n")
}

func rank(w *writer, o ops.Rank) {
	w.classed(o.Padded, `	f32 own = X[r * cols + t];
	i32 before = 0;
	for (i64 k = 0; k < cols; k++) {
		f32 x = X[r * cols + k];
		if (x > own || (own != own && x == x) || (k < t && (x == own || (own != own && x != x)))) before++;
	}
	Z[i] = before;
`)
}

func binaryOutcome(w *writer, _ ops.BinaryOutcome) {
	w.items(w.elems(0), []param{in(0, "X"), in(1, "Y"), outInts(0, "Z"), number("per", w.node.In[0].Meta.Shape[1:].Elems())},
		"\tZ[i] = (i32)(4 * (i % per)) + (Y[i] > 0.5f ? 2 : 0) + (X[i] > 0.0f ? 1 : 0);\n")
}

// tally gives each index a lane. The lane of a number's first occurrence counts the others.
func tally(w *writer, o ops.Tally) {
	w.keep(0, 0)
	n := w.elems(1)
	w.items(n, []param{site, inInts(1, "K"), outInts(0, "Z"), number("counts", w.elems(0)), paddedRows(o.Padded)}, `	i64 k = K[i];
	if (padded && k == -1) return;
	if (k < 0 || k >= counts) { FAIL; return; }
	for (i64 j = i - 1; j >= 0; j--) if (K[j] == k) return;
	i32 found = 1;
	for (i64 j = i + 1; j < n; j++) if (K[j] == k) found++;
	Z[k] += found;
`)
}

// keep copies input i to output k, unless they are the same memory.
func (w *writer) keep(i, k int) {
	before := len(w.calls)
	w.items(w.elems(i), []param{inWords(i, "X"), outWords(k, "Z")}, "\tZ[i] = X[i];\n")
	for c := before; c < len(w.calls); c++ {
		w.calls[c].Copy = true
	}
}
