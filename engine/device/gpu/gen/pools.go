package gen

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var pools = map[string]template{
	"max_pool2d":      of(maxPool),
	"max_pool2d_grad": func(w *writer, _ graph.Op) error { w.maxPoolGrad(); return nil },
	"avg_pool2d":      of(avgPool),
	"avg_pool2d_grad": of(avgPoolGrad),
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
	w.items(w.outElems(0), append(params, site, inInts(0, "AT"), in(1, "DY"), number("plane", dx[2]*dx[3]), number("outputs", dy[2]*dy[3])), `	i64 base = i / plane * outputs;
	f32 s = 0.0f;
	for (i64 o = 0; o < outputs; o++) {
		i64 at = AT[base + o];
		if (at < 0 || at >= plane) { FAIL; return; }
		if (at == i % plane) s += DY[base + o];
	}
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
