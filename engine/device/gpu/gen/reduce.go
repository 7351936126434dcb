package gen

import (
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var reductions = map[string]template{
	"reduce_sum":      of(reduce),
	"reduce_mean":     of(reduce),
	"reduce_max":      of(reduce),
	"reduce_max_grad": of(reduceMaxGrad),
	"sum_to":          func(w *writer, _ graph.Op) error { w.sumTo(); return nil },
	"broadcast_to":    func(w *writer, _ graph.Op) error { w.binaryView("x"); return nil },
	"sum_squares":     of(sumSquares),
	"square_parts":    of(squareParts),
	"square_total":    of(squareTotal),
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

// among tells of a dimension whether it is one of axes, which are all if there are none.
func among(axes []int) func(d int) bool {
	return func(d int) bool { return len(axes) == 0 || slices.Contains(axes, d) }
}

func reduce(w *writer, o ops.Reduce) { w.reduceTo(o.Fn, among(o.Axes)) }

// reduceMaxGrad gives dy to the first element of x that equals y, and 0 to the others.
func reduceMaxGrad(w *writer, o ops.ReduceMaxGrad) {
	kept, gone, keptSt, goneSt := split(w.node.In[0].Meta.Shape, among(o.Axes))
	pk, ik := position("p", kept, keptSt)
	pg, ig := position("q", gone, goneSt)
	params := append([]param{in(0, "X"), in(1, "Y"), in(2, "DY"), out(0, "DX"), number("count", gone.Elems())}, append(pk, pg...)...)
	w.items(w.elems(0), params, `	i64 k = i / count, e = i % count, base = `+strings.ReplaceAll(ik, "i", "k")+`, at = base + `+strings.ReplaceAll(ig, "i", "e")+`;
	f32 x = X[at];
	i32 first = x == Y[k];
	for (e = e - 1; first && e >= 0; e--) first = X[base + `+strings.ReplaceAll(ig, "i", "e")+`] != x;
	DX[at] = first ? DY[k] : 0.0f;
`)
}

func (w *writer) sumTo() {
	x, to := w.node.In[0].Meta.Shape, w.node.Out[0].Meta.Shape
	w.reduceTo("sum", func(d int) bool { k := d - (len(x) - len(to)); return k < 0 || to[k] == 1 })
}

// reduceTo reduces by fn. A group computes an output.
func (w *writer) reduceTo(fn string, reduced func(d int) bool) {
	kept, gone, keptSt, goneSt := split(w.node.In[0].Meta.Shape, reduced)
	pk, ik := position("p", kept, keptSt)
	pg, ig := position("q", gone, goneSt)
	params := append([]param{in(0, "X"), out(0, "Z"), number("n", gone.Elems())}, append(pk, pg...)...)
	x := "X[base + " + strings.ReplaceAll(ig, "i", "e") + "]"
	body := "\ti64 i = GROUP, base = " + ik + ";\n"
	switch fn {
	case "max":
		body = foldShared + body + most("all", "n", x)
	case "mean":
		body = totalShared + body + total("all", "n", "ADD("+x+")") + "\tall = all * (1.0f / (f32)n);\n"
	default:
		body = totalShared + body + total("all", "n", "ADD("+x+")")
	}
	w.groups(w.outElems(0), params, body+writeAll)
}

// binaryView writes z = c of x, which broadcasts to z.
func (w *writer) binaryView(c string) {
	s, n := w.node.Out[0].Meta.Shape, w.outElems(0)
	px, ix := position("p", s, strides(w.node.In[0].Meta.Shape, s))
	from, to, typ := in(0, "X"), out(0, "Z"), "f32"
	if w.node.Out[0].Meta.DType == shape.Int32 {
		from, to, typ = inInts(0, "X"), outInts(0, "Z"), "i32"
	}
	w.items(n, append([]param{from, to}, px...), "\t"+typ+" x = X["+ix+"];\n\tZ[i] = "+c+";\n")
}
