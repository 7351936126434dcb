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
// their order. Where the graph tells the windows, it looks only at those that have the
// element.
func (w *writer) maxPoolGrad() {
	dy, dx := w.node.In[1].Meta.Shape, w.node.Out[0].Meta.Shape
	const any = 1 << 20
	window := ops.MaxPool2D{Kernel: 2 * any, Stride: 1, Pad: any}
	if n := w.node.In[0].Node; n != nil {
		if o, ok := n.Op.(ops.MaxPool2D); ok {
			window = o
		}
	}
	params, store := w.result()
	w.items(w.outElems(0), append(append(params, site, inInts(0, "AT"), in(1, "DY")), planes(dx, dy, window.Kernel, window.Stride, window.Pad)...), `	i64 v = i % V, h = i / V % H, base = i / V / H * P * Q;
	i64 above = h + pad - K, left = v + pad - K, p0 = above < 0 ? 0 : above / stride + 1, q0 = left < 0 ? 0 : left / stride + 1;
	f32 s = 0.0f;
	for (i64 p = p0; p < P && p * stride <= h + pad; p++) for (i64 q = q0; q < Q && q * stride <= v + pad; q++) {
		i64 at = AT[base + p * Q + q];
		if (at < 0 || at >= H * V) { FAIL; return; }
		if (at == h * V + v) s += DY[base + p * Q + q];
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
