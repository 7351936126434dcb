package gen

import (
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var reductions = map[string]template{
	"reduce_sum":   of(reduce),
	"reduce_mean":  of(reduce),
	"reduce_max":   of(reduce),
	"sum_to":       func(w *writer, _ graph.Op) error { w.sumTo(); return nil },
	"broadcast_to": func(w *writer, _ graph.Op) error { w.binaryView("x"); return nil },
	"sum_squares":  of(func(w *writer, _ ops.SumSquares) { w.sumAll("FMA(X[e], X[e], s)") }),
}

// split says how the elements of a tensor of shape x, whose dimensions are reduced or
// kept, are walked: kept ones by the number of the output, reduced ones by a loop.
func split(x shape.Shape, reduced func(d int) bool) (kept, gone shape.Shape, keptSt, goneSt []int) {
	own := x.Strides()
	for d := range x {
		if reduced(d) {
			gone, goneSt = append(gone, x[d]), append(goneSt, own[d])
		} else {
			kept, keptSt = append(kept, x[d]), append(keptSt, own[d])
		}
	}
	return
}

func reduce(w *writer, o ops.Reduce) {
	w.fold(o.Fn, func(d int) bool { return len(o.Axes) == 0 || slices.Contains(o.Axes, d) })
}

func (w *writer) sumTo() {
	x, to := w.node.In[0].Meta.Shape, w.node.Out[0].Meta.Shape
	w.fold("sum", func(d int) bool { k := d - (len(x) - len(to)); return k < 0 || to[k] == 1 })
}

// fold reduces by fn. A group computes an output: 64 lanes take elements in turns,
// and a tree adds their results. So the order is the same for every device.
func (w *writer) fold(fn string, reduced func(d int) bool) {
	kept, gone, keptSt, goneSt := split(w.node.In[0].Meta.Shape, reduced)
	pk, ik := position("p", kept, keptSt)
	pg, ig := position("q", gone, goneSt)
	first, step, join, last := "0.0f", "s + v", "a + b", "s"
	switch fn {
	case "max":
		first, step, join = "-INF_F", "s != s ? s : v > s || v != v ? v : s", "a != a ? a : b > a || b != b ? b : a"
	case "mean":
		last = "s * (1.0f / (f32)n)"
	}
	params := append([]param{in(0, "X"), out(0, "Z"), number("n", gone.Elems())}, append(pk, pg...)...)
	body := `	SHARED f32 T[64];
	i64 i = GROUP, base = ` + ik + `;
	f32 s = ` + first + `;
	for (i64 e = LANE; e < n; e += 64) { i64 i = e; f32 v = X[base + ` + ig + `]; s = ` + step + `; }
	T[LANE] = s;
	BARRIER;
	for (i64 h = 32; h > 0; h /= 2) {
		if (LANE < h) { f32 a = T[LANE], b = T[LANE + h]; T[LANE] = ` + join + `; }
		BARRIER;
	}
	if (LANE == 0 && !STATUS[0]) { s = T[0]; Z[GROUP] = ` + last + `; }
`
	w.groups(w.outElems(0), params, body)
}

// sumAll folds all elements of input 0 into one number: s = c for each element e.
func (w *writer) sumAll(c string) {
	n := w.elems(0)
	w.groups(1, []param{in(0, "X"), out(0, "Z"), number("n", n)}, sumLanes("\tfor (i64 e = LANE; e < n; e += 64) s = "+c+";\n", "Z[0]"))
}

// sumLanes is the body of a group that sums: loop adds to s in each lane, and to
// gets the sum of all lanes.
func sumLanes(loop, to string) string {
	return strings.Replace(`	SHARED f32 T[64];
	f32 s = 0.0f;
`+loop+`	T[LANE] = s;
	BARRIER;
	for (i64 h = 32; h > 0; h /= 2) {
		if (LANE < h) T[LANE] = T[LANE] + T[LANE + h];
		BARRIER;
	}
	if (LANE == 0 && !STATUS[0]) TO = T[0];
`, "TO", to, 1)
}

// binaryView writes z = c of x, which broadcasts to z.
func (w *writer) binaryView(c string) {
	s, n := w.node.Out[0].Meta.Shape, w.outElems(0)
	px, ix := position("p", s, strides(w.node.In[0].Meta.Shape, s))
	from, to, typ := in(0, "X"), out(0, "Z"), "f32"
	if w.node.Out[0].Meta.DType == shape.Int32 {
		from, to, typ = inInts(0, "X"), outInts(0, "Z"), "i32"
	}
	w.call(n, append([]param{from, to, number("n", n)}, px...), "\ti64 i = ITEM;\n\tif (i >= n) return;\n\t"+typ+" x = X["+ix+"];\n\tZ[i] = "+c+";\n")
}
