package gen

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var convolutions = map[string]template{
	"conv2d":          of(conv),
	"conv2d_grad_x":   of(convGradX),
	"conv2d_grad_w":   of(convGradW),
	"max_pool2d":      of(maxPool),
	"max_pool2d_grad": func(w *writer, _ graph.Op) error { w.maxPoolGrad(); return nil },
	"avg_pool2d":      of(avgPool),
	"avg_pool2d_grad": of(avgPoolGrad),
}

// sizes are the parameters of a convolution of x by w to y.
func sizes(x, w, y shape.Shape, stride, pad, groups int) []param {
	return []param{number("C", x[1]), number("H", x[2]), number("V", x[3]), number("K", w[1]), number("R", w[2]), number("S", w[3]),
		number("O", y[1]), number("P", y[2]), number("Q", y[3]), number("stride", stride), number("pad", pad), number("per", max(1, y[1]/groups))}
}

// conv gives each output a lane, which adds products in the order of w's elements.
func conv(w *writer, o ops.Conv2D) {
	params, store := w.result()
	w.items(w.outElems(0), append(append(params, in(0, "X"), in(1, "W")),
		sizes(w.node.In[0].Meta.Shape, w.node.In[1].Meta.Shape, w.node.Out[0].Meta.Shape, o.Stride, o.Pad, o.Groups)...), `	i64 q = i % Q, p = i / Q % P, o = i / Q / P % O, b = i / Q / P / O, first = o / per * K;
	f32 s = 0.0f;
	for (i64 k = 0; k < K; k++) for (i64 r = 0; r < R; r++) for (i64 t = 0; t < S; t++) {
		i64 h = p * stride - pad + r, v = q * stride - pad + t;
		if (h >= 0 && h < H && v >= 0 && v < V) s = FMA(X[((b * C + first + k) * H + h) * V + v], W[((o * K + k) * R + r) * S + t], s);
	}
	`+store("i", "s")+`
`)
}

func convGradX(w *writer, o ops.Conv2DGradX) {
	params, store := w.result()
	w.items(w.outElems(0), append(append(params, in(0, "W"), in(1, "DY")),
		sizes(w.node.Out[0].Meta.Shape, w.node.In[0].Meta.Shape, w.node.In[1].Meta.Shape, o.Stride, o.Pad, o.Groups)...), `	i64 v = i % V, h = i / V % H, c = i / V / H % C, b = i / V / H / C, k = c % K, first = c / K * per;
	f32 s = 0.0f;
	for (i64 o = first; o < first + per; o++) for (i64 r = 0; r < R; r++) for (i64 t = 0; t < S; t++) {
		i64 y = h + pad - r, x = v + pad - t;
		if (y >= 0 && x >= 0 && y % stride == 0 && x % stride == 0 && y / stride < P && x / stride < Q)
			s = FMA(DY[((b * O + o) * P + y / stride) * Q + x / stride], W[((o * K + k) * R + r) * S + t], s);
	}
	`+store("i", "s")+`
`)
}

// convGradW gives each weight a group: its lanes take outputs in turns, and a tree adds
// their sums.
func convGradW(w *writer, o ops.Conv2DGradW) {
	w.groups(w.outElems(0), append([]param{in(0, "X"), in(1, "DY"), out(0, "DW"), number("batch", w.node.In[0].Meta.Shape[0])},
		sizes(w.node.In[0].Meta.Shape, w.node.Out[0].Meta.Shape, w.node.In[1].Meta.Shape, o.Stride, o.Pad, o.Groups)...), foldShared+`	i64 i = GROUP, t = i % S, r = i / S % R, k = i / S / R % K, o = i / S / R / K, ch = o / per * K + k, n = batch * P * Q;
`+sum("all", "n", `
			i64 q = e % Q, p = e / Q % P, b = e / Q / P, h = p * stride - pad + r, v = q * stride - pad + t;
			if (h >= 0 && h < H && v >= 0 && v < V) s = FMA(DY[((b * O + o) * P + p) * Q + q], X[((b * C + ch) * H + h) * V + v], s);
		`)+"\tif (LANE == 0 && !STATUS[0]) DW[GROUP] = all;\n")
}

// planes are the parameters of pooling from planes of x to planes of y.
func planes(x, y shape.Shape, kernel, stride, pad int) []param {
	return []param{number("H", x[2]), number("V", x[3]), number("P", y[2]), number("Q", y[3]), number("K", kernel), number("stride", stride), number("pad", pad)}
}

func maxPool(w *writer, o ops.MaxPool2D) {
	n := w.outElems(0)
	w.items(n, append([]param{in(0, "X"), out(0, "Y"), outInts(1, "AT")},
		planes(w.node.In[0].Meta.Shape, w.node.Out[0].Meta.Shape, o.Kernel, o.Stride, o.Pad)...), `	i64 q = i % Q, p = i / Q % P, base = i / Q / P * H * V, at = -1;
	f32 best = 0.0f;
	for (i64 r = 0; r < K; r++) for (i64 t = 0; t < K; t++) {
		i64 h = p * stride - pad + r, v = q * stride - pad + t;
		if (h < 0 || h >= H || v < 0 || v >= V) continue;
		f32 x = X[base + h * V + v];
		if (at < 0 || x > best) { best = x; at = h * V + v; }
	}
	Y[i] = best;
	AT[i] = (i32)(at < 0 ? 0 : at);
`)
}

// maxPoolGrad gives each element of x a lane, which adds the outputs that it was taken for, in
// their order.
func (w *writer) maxPoolGrad() {
	dy, dx := w.node.In[1].Meta.Shape, w.node.Out[0].Meta.Shape
	params, store := w.result()
	w.items(w.outElems(0), append(params, inInts(0, "AT"), in(1, "DY"), number("plane", dx[2]*dx[3]), number("outputs", dy[2]*dy[3])), `	i64 base = i / plane * outputs;
	f32 s = 0.0f;
	for (i64 o = 0; o < outputs; o++) if (AT[base + o] == i % plane) s += DY[base + o];
	`+store("i", "s")+`
`)
}

func avgPool(w *writer, o ops.AvgPool2D) {
	n := w.outElems(0)
	w.items(n, append([]param{in(0, "X"), out(0, "Y")},
		planes(w.node.In[0].Meta.Shape, w.node.Out[0].Meta.Shape, o.Kernel, o.Stride, o.Pad)...), `	i64 q = i % Q, p = i / Q % P, base = i / Q / P * H * V;
	f32 s = 0.0f;
	for (i64 r = 0; r < K; r++) for (i64 t = 0; t < K; t++) {
		i64 h = p * stride - pad + r, v = q * stride - pad + t;
		if (h >= 0 && h < H && v >= 0 && v < V) s += X[base + h * V + v];
	}
	Y[i] = s / (f32)(K * K);
`)
}

func avgPoolGrad(w *writer, o ops.AvgPool2DGrad) {
	params, store := w.result()
	w.items(w.outElems(0), append(append(params, in(0, "DY")),
		planes(w.node.Out[0].Meta.Shape, w.node.In[0].Meta.Shape, o.Kernel, o.Stride, o.Pad)...), `	i64 v = i % V, h = i / V % H, base = i / V / H * P * Q;
	f32 s = 0.0f;
	for (i64 r = 0; r < K; r++) for (i64 t = 0; t < K; t++) {
		i64 y = h + pad - r, x = v + pad - t;
		if (y >= 0 && x >= 0 && y % stride == 0 && x % stride == 0 && y / stride < P && x / stride < Q)
			s += DY[base + y / stride * Q + x / stride] / (f32)(K * K);
	}
	`+store("i", "s")+`
`)
}
