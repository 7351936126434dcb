package gen

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var norms = map[string]template{
	"layer_norm":       of(layerNorm),
	"layer_norm_grad":  of(layerNormGrad),
	"rms_norm":         of(rmsNorm),
	"rms_norm_grad":    of(rmsNormGrad),
	"batch_norm":       of(batchNorm),
	"batch_norm_grad":  of(batchNormGrad),
	"batch_norm_eval":  of(batchNormEval),
	"softmax_grad":     func(w *writer, _ graph.Op) error { w.softmaxGrad("Y[i] * DY[i]", "Y[i] * (DY[i] - all)"); return nil },
	"log_softmax_grad": func(w *writer, _ graph.Op) error { w.softmaxGrad("DY[i]", "FMA(-exp_f(Y[i]), all, DY[i])"); return nil },
}

// softmaxGrad sums a over each row, for element i, and writes z = c, of that sum.
func (w *writer) softmaxGrad(a, c string) {
	rows, cols := w.rows()
	w.groups(rows, []param{in(0, "Y"), in(1, "DY"), out(0, "Z"), number("cols", cols)}, foldShared+"\ti64 from = GROUP * cols;\n"+
		sum("all", "cols", "i64 i = from + e; s += "+a+";")+
		"\tif (!STATUS[0]) for (i64 i = from + LANE; i < from + cols; i += LANES) Z[i] = "+c+";\n")
}

// moments gives mean and variance of n elements to all lanes; AT(e) is the place of
// element e.
var moments = foldShared + sum("all", "n", "s += X[AT(e)];") + "\tf32 mean = all / (f32)n;\n" +
	sum("square", "n", "f32 d = X[AT(e)] - mean; s = FMA(d, d, s);") + "\tf32 var = square / (f32)n;\n"

// atRow and atChannel define AT: for the rows of the last axis, and for channels,
// dimension 1, of plane elements each.
const (
	atRow     = "#undef AT\n#define AT(e) (GROUP * n + (e))\n"
	atChannel = "#undef AT\n#define AT(e) (((e) / plane * channels + GROUP) * plane + (e) % plane)\n"
)

func layerNorm(w *writer, o ops.LayerNorm) {
	rows, cols := w.rows()
	params, store := w.result()
	w.groups(rows, append(params, in(0, "X"), in(1, "G"), in(2, "B"), out(1, "MEAN"), out(2, "RSTD"), number("n", cols)), atRow+moments+`
	f32 r = 1.0f / SQRT(var + `+float(o.Eps)+`);
	if (STATUS[0]) n = 0;
	for (i64 e = LANE; e < n; e += LANES) `+store("AT(e)", "FMA((X[AT(e)] - mean) * r, G[e], B[e])")+`
	if (LANE == 0 && !STATUS[0]) { MEAN[GROUP] = mean; RSTD[GROUP] = r; }
`)
}

// normalised readies the gradient through the normalisation of n elements, of which W(e) is
// the weight: dx = rstd (g - mean(g) - h mean(g h)), with g = dy W and h = (x-mean) rstd.
var normalised = foldShared + "\tf32 mean = MEAN[GROUP], r = RSTD[GROUP];\n" +
	sum("g", "n", "s = FMA(DY[AT(e)], W(e), s);") + sum("gh", "n", "s = FMA(DY[AT(e)] * W(e), (X[AT(e)] - mean) * r, s);") +
	"\tg = g / (f32)n;\n\tgh = gh / (f32)n;\n"

// writeNormalised writes dx, which may take the memory of dy or x.
func writeNormalised(store func(i, v string) string) string {
	return "\tif (!STATUS[0]) for (i64 e = LANE; e < n; e += LANES) " + store("AT(e)", "r * (DY[AT(e)] * W(e) - g - (X[AT(e)] - mean) * r * gh)") + "\n"
}

func layerNormGrad(w *writer, _ ops.LayerNormGrad) {
	rows, cols := w.rows()
	w.groups(cols, []param{in(0, "X"), in(2, "MEAN"), in(3, "RSTD"), in(4, "DY"), out(1, "DG"), out(2, "DB"), number("rows", rows), number("cols", cols)}, foldShared+
		sum("dg", "rows", "i64 i = e * cols + GROUP; s = FMA(DY[i], (X[i] - MEAN[e]) * RSTD[e], s);")+
		sum("db", "rows", "s += DY[e * cols + GROUP];")+
		"\tif (LANE == 0 && !STATUS[0]) { DG[GROUP] = dg; DB[GROUP] = db; }\n")
	params, store := w.result()
	w.groups(rows, append(params, in(0, "X"), in(1, "G"), in(2, "MEAN"), in(3, "RSTD"), in(4, "DY"), number("n", cols)),
		atRow+"#undef W\n#define W(e) G[e]\n"+normalised+writeNormalised(store))
}

func rmsNorm(w *writer, o ops.RMSNorm) {
	rows, cols := w.rows()
	params, store := w.result()
	w.groups(rows, append(params, in(0, "X"), in(1, "G"), out(1, "RSTD"), number("n", cols)), atRow+foldShared+
		sum("square", "n", "s = FMA(X[AT(e)], X[AT(e)], s);")+`
	f32 r = 1.0f / SQRT(square / (f32)n + `+float(o.Eps)+`);
	if (STATUS[0]) n = 0;
	for (i64 e = LANE; e < n; e += LANES) `+store("AT(e)", "X[AT(e)] * r * G[e]")+`
	if (LANE == 0 && !STATUS[0]) RSTD[GROUP] = r;
`)
}

func rmsNormGrad(w *writer, _ ops.RMSNormGrad) {
	rows, cols := w.rows()
	w.groups(cols, []param{in(0, "X"), in(2, "RSTD"), in(3, "DY"), out(1, "DG"), number("rows", rows), number("cols", cols)}, foldShared+
		sum("dg", "rows", "i64 i = e * cols + GROUP; s = FMA(DY[i], X[i] * RSTD[e], s);")+
		"\tif (LANE == 0 && !STATUS[0]) DG[GROUP] = dg;\n")
	params, store := w.result()
	w.groups(rows, append(params, in(0, "X"), in(1, "G"), in(2, "RSTD"), in(3, "DY"), number("n", cols)), atRow+foldShared+"\tf32 r = RSTD[GROUP];\n"+
		sum("gh", "n", "s = FMA(DY[AT(e)] * G[e], X[AT(e)] * r, s);")+"\tgh = gh / (f32)n;\n"+
		"\tif (!STATUS[0]) for (i64 e = LANE; e < n; e += LANES) "+store("AT(e)", "r * (DY[AT(e)] * G[e] - X[AT(e)] * r * gh)")+"\n")
}

// channels are the channels of input 0, and the parameters that say how they lie.
func (w *writer) channels() (count int, params []param) {
	s := w.node.In[0].Meta.Shape
	plane := s[2:].Elems()
	return s[1], []param{number("channels", s[1]), number("plane", plane), number("n", s[0]*plane)}
}

func batchNorm(w *writer, o ops.BatchNorm) {
	c, how := w.channels()
	w.groups(c, append([]param{in(0, "X"), in(1, "G"), in(2, "B"), out(0, "Z"), out(1, "MEAN"), out(2, "VAR"), out(3, "RSTD")}, how...), atChannel+moments+`
	f32 r = 1.0f / SQRT(var + `+float(o.Eps)+`), g = G[GROUP], b = B[GROUP];
	if (STATUS[0]) n = 0;
	for (i64 e = LANE; e < n; e += LANES) Z[AT(e)] = FMA((X[AT(e)] - mean) * r, g, b);
	if (LANE == 0 && !STATUS[0]) { MEAN[GROUP] = mean; VAR[GROUP] = var; RSTD[GROUP] = r; }
`)
}

func batchNormGrad(w *writer, _ ops.BatchNormGrad) {
	c, how := w.channels()
	params, store := w.result()
	w.groups(c, append(append(params, in(0, "X"), in(1, "G"), in(2, "MEAN"), in(3, "RSTD"), in(4, "DY"), out(1, "DG"), out(2, "DB")), how...),
		atChannel+"#undef W\n#define W(e) G[GROUP]\n"+normalised+
			sum("dg", "n", "s = FMA(DY[AT(e)], (X[AT(e)] - mean) * r, s);")+sum("db", "n", "s += DY[AT(e)];")+
			"\tif (LANE == 0 && !STATUS[0]) { DG[GROUP] = dg; DB[GROUP] = db; }\n"+writeNormalised(store))
}

func batchNormEval(w *writer, o ops.BatchNormEval) {
	n := w.elems(0)
	s := w.node.In[0].Meta.Shape
	w.items(n, []param{in(0, "X"), in(1, "G"), in(2, "B"), in(3, "MEAN"), in(4, "VAR"), out(0, "Z"), number("plane", s[2:].Elems()), number("channels", s[1])}, `	i64 c = i / plane % channels;
	Z[i] = FMA((X[i] - MEAN[c]) / SQRT(VAR[c] + `+float(o.Eps)+`), G[c], B[c]);
`)
}
