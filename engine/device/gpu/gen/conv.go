package gen

import (
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var convolutions = map[string]template{
	"conv2d":        of(conv),
	"conv2d_grad_x": of(convGradX),
	"conv2d_grad_w": of(convGradW),
}

// Convolutions are products, with a batch for each group of channels. Padding counts as
// zeros.

// windowShared is what a group knows of each k: how far it is down and to the right, and
// the offset in memory that follows.
const windowShared = "\tSHARED i32 ROW[DEPTH], COL[DEPTH];\n\tSHARED i64 FROM[DEPTH];\n"

// sizes are the parameters of a convolution of x by w to y. L is the channels of x in a
// group.
func sizes(x, w, y shape.Shape, op ops.Conv2D) []param {
	return []param{number("C", x[1]), number("H", x[2]), number("V", x[3]), number("L", w[1]), number("R", w[2]), number("S", w[3]),
		number("O", y[1]), number("P", y[2]), number("Q", y[3]), number("stride", op.Stride), number("pad", op.Pad), number("apart", op.Apart())}
}

// factorsOf is p whose factors are those of o.
func factorsOf(o ops.Conv2D, p product) product {
	if o.BF16 {
		p.a, p.b = "bf16_f("+p.a+")", "bf16_f("+p.b+")"
	}
	return p
}

// conv sums over the channels of a group and the elements of a kernel.
func conv(w *writer, o ops.Conv2D) {
	x, k, y := w.node.In[0].Meta.Shape, w.node.In[1].Meta.Shape, w.node.Out[0].Meta.Shape
	params, store := w.result()
	w.product(factorsOf(o, product{batches: o.Groups, m: y[1] / o.Groups, n: y[0] * y[2] * y[3], k: k[1:].Elems(),
		params: append(append(params, in(0, "X"), in(1, "W")), sizes(x, k, y, o)...),
		rowOfA: "W += (p * M + i) * K;", a: "W[k]",
		colOfB: `X += (j / Q / P * C + p * L) * H * V;
	i64 h = j / Q % P * stride - pad, v = j % Q * stride - pad;`,
		shared: windowShared,
		eachK: `			ROW[l] = (i32)((u32)k / (u32)S % (u32)R * apart);
			COL[l] = (i32)((u32)k % (u32)S * apart);
			FROM[l] = ((u32)k / (u32)(R * S) * H + ROW[l]) * V + COL[l];
`,
		b:     "within_f(X, FROM[l] + h * V + v, (i32)h + ROW[l], (i32)v + COL[l], (i32)H, (i32)V)",
		store: "i64 n = j / (P * Q); " + store("(n * O + p * M + i) * P * Q + j % (P * Q)", "v")}))
}

// convGradX sums over the outputs that read an element, by channel and element of the
// kernel.
func convGradX(w *writer, o ops.Conv2DGradX) {
	x, k, y := w.node.Out[0].Meta.Shape, w.node.In[0].Meta.Shape, w.node.In[1].Meta.Shape
	params, store := w.result()
	w.product(factorsOf(o.Of, product{batches: o.Of.Groups, m: k[1], n: x[0] * x[2] * x[3], k: k[0] / o.Of.Groups * k[2] * k[3],
		params: append(append(params, in(0, "W"), in(1, "DY")), sizes(x, k, y, o.Of)...),
		rowOfA: "i64 area = R * S, per = K / area;\n\tW += (p * per * L + i) * area;", a: "W[(u32)k / (u32)area * L * area + (u32)k % (u32)area]",
		colOfB: `DY += (j / V / H * O + p * per) * P * Q;
	i64 h = j / V % H + pad, v = j % V + pad;`,
		shared: windowShared,
		eachK: `			ROW[l] = (i32)((u32)k / (u32)S % (u32)R * apart);
			COL[l] = (i32)((u32)k % (u32)S * apart);
			FROM[l] = (u32)k / (u32)(R * S) * P * Q;
`,
		b:     "reader_f(DY + FROM[l], (i32)h - ROW[l], (i32)v - COL[l], (i32)P, (i32)Q, (i32)stride)",
		store: "i64 n = j / (H * V); " + store("(n * C + p * M + i) * H * V + j % (H * V)", "v")}))
}

// convGradW sums over all outputs of a channel. Parts of such sums are in scratch memory,
// from where they are added up in order.
func convGradW(w *writer, o ops.Conv2DGradW) {
	x, k, y := w.node.In[0].Meta.Shape, w.node.Out[0].Meta.Shape, w.node.In[1].Meta.Shape
	p := factorsOf(o.Of, product{batches: o.Of.Groups, m: k[0] / o.Of.Groups, n: k[1:].Elems(), k: y[0] * y[2] * y[3], store: "Z[(p * M + i) * N + j] = v;",
		params: append([]param{out(0, "Z"), in(0, "X"), in(1, "DY")}, sizes(x, k, y, o.Of)...),
		rowOfA: "DY += (p * M + i) * P * Q;", a: "DY[(u32)k / (u32)(P * Q) * O * P * Q + (u32)k % (u32)(P * Q)]",
		colOfB: "X += (p * L + j / (R * S)) * H * V;\n\ti64 h = j / S % R * apart - pad, v = j % S * apart - pad;",
		shared: windowShared,
		eachK: `			ROW[l] = (i32)((u32)k / (u32)Q % (u32)P * stride);
			COL[l] = (i32)((u32)k % (u32)Q * stride);
			FROM[l] = (u32)k / (u32)(P * Q) * C * H * V + ROW[l] * V + COL[l];
`,
		b: "within_f(X, FROM[l] + h * V + v, (i32)h + ROW[l], (i32)v + COL[l], (i32)H, (i32)V)"})
	n := k.Elems()
	of, sums := w.node.Whole().Out[0].Meta.Shape, p
	sums.m, sums.n = of[0]/o.Of.Groups, of[1:].Elems()
	if p.parts = sums.cutSums(); p.parts == 1 {
		w.product(p)
		return
	}
	w.scratch = int64(p.parts) * int64(n) * 4
	p.params[0] = scratchAt(0, "Z")
	p.store = "Z[part * whole + (p * M + i) * N + j] = v;"
	p.params = append(p.params, number("whole", n))
	w.product(p)
	w.items(n, []param{scratchAt(0, "X"), out(0, "Z"), number("parts", p.parts)}, "\tf32 s = 0.0f;\n\tfor (i64 e = 0; e < parts; e++) s += X[e * n + i];\n\tZ[i] = s;\n")
}
