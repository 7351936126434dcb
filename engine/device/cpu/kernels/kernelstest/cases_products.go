package kernelstest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

var productCases = map[string]func(s Source) Sample{
	"matmul":        DrawMatMul,
	"conv2d":        func(s Source) Sample { return drawConv(s, "y") },
	"conv2d_grad_x": func(s Source) Sample { return drawConv(s, "x") },
	"conv2d_grad_w": func(s Source) Sample { return drawConv(s, "w") },
	"max_pool2d":    func(s Source) Sample { x, p := drawPool(s); return Of(p, 0, x) },
	"avg_pool2d":    func(s Source) Sample { x, p := drawPool(s); return Of(ops.AvgPool2D(p), 1e-6, x) },
	"avg_pool2d_grad": func(s Source) Sample {
		x, p := drawPool(s)
		y := mustRun(s, p, x)
		h, w := x.Meta.Shape[2], x.Meta.Shape[3]
		return Of(ops.AvgPool2DGrad{Kernel: p.Kernel, Stride: p.Stride, Pad: p.Pad, H: h, W: w}, 1e-6, s.Normal(y[0].Meta.Shape...))
	},
	"max_pool2d_grad": func(s Source) Sample {
		x, p := drawPool(s)
		y := mustRun(s, p, x)
		return Of(ops.MaxPool2DGrad{H: x.Meta.Shape[2], W: x.Meta.Shape[3]}, 1e-6, y[1], s.Normal(y[1].Meta.Shape...))
	},
	"attention": func(s Source) Sample {
		op, in := drawAttention(s)
		if !op.BF16 || !s.Bool("alike") {
			return Of(op, tolerance(op, 2e-5), in...)
		}
		// Where all keys are alike, all probabilities of a query are, and none is near the middle of two neighbours.
		for i, x := range in[0].F {
			width, size := in[0].Meta.Shape[2], op.Size(in[0].Meta.Shape[2])
			if at := i % width / size; at >= op.Heads && at < op.Heads+op.KVHeads {
				in[0].F[i] = 0.7
			} else {
				in[0].F[i] = math.Abs(x)
			}
		}
		return Of(op, 2e-5, in...)
	},
	"attention_grad": func(s Source) Sample {
		op, in := drawAttention(s)
		y := mustRun(s, op, in...)
		for i := range y { // what the device would hold
			for j, v := range y[i].F {
				y[i].F[j] = float64(float32(v))
			}
		}
		all := append([]ref.Array{in[0], y[0], y[1], s.Normal(y[0].Meta.Shape...)}, in[1:]...)
		return Of(ops.AttentionGrad(op), tolerance(op, 5e-5), all...)
	},
}

func mustRun(s Source, op graph.Op, in ...ref.Array) []ref.Array {
	y, err := ref.Run(op, in)
	if err != nil {
		s.T.Fatalf("reference: %v", err)
	}
	return y
}

func DrawMatMul(s Source) Sample {
	op := ops.MatMul{TransA: s.Bool("transA"), TransB: s.Bool("transB"), BF16: s.Bool("bf16")}
	m, n, k := s.Dim("m", 70), s.Dim("n", 130), s.Dim("k", 300)
	batch := s.Shape("batch", 0, 2, 3)
	a, b := []int{m, k}, []int{k, n}
	if op.TransA {
		a = []int{k, m}
	}
	if op.TransB {
		b = []int{n, k}
	}
	a = append(batch.Clone(), a...)
	if op.TransA || s.Bool("both") {
		b = append(batch.Clone(), b...)
	}
	y := s.Normal(b...)
	if len(b) == 2 && !op.TransA {
		switch rapid.IntRange(0, 2).Draw(s.T, "stored") {
		case 1:
			y = stored(y)
		case 2:
			y = storedInt8(y)
		}
	}
	return Of(op, 1e-4, s.Normal(a...), y)
}

func drawConv(s Source, which string) Sample {
	groups := s.Size("groups", 3)
	n, c, o := s.Dim("n", 3), groups*s.Size("c", 4), groups*s.Size("o", 5)
	kh, kw := s.Size("kh", 4), s.Size("kw", 4)
	if s.Bool("many channels") {
		c, o = groups*s.Size("more c", 40), groups*s.Size("more o", 40)
	}
	stride, pad := s.Size("stride", 3), rapid.IntRange(0, 3).Draw(s.T, "pad")
	switch s.Size("kind", 4) {
	case 1: // windows side by side
		kw, stride, pad = kh, kh, 0
	case 2: // each channel alone
		groups = s.Size("channels", 40)
		c, o = groups, groups
	}
	op := ops.Conv2D{Stride: stride, Pad: pad, Groups: groups, Dilation: s.Size("dilation", 3), BF16: s.Bool("bf16")}
	h := max(1, op.Span(kh)-2*pad) + rapid.IntRange(0, 12).Draw(s.T, "h")
	w := max(1, op.Span(kw)-2*pad) + rapid.IntRange(0, 40).Draw(s.T, "w")
	x, f := s.Normal(n, c, h, w), s.Normal(o, c/groups, kh, kw)
	y, err := op.Infer([]shape.Meta{x.Meta, f.Meta})
	if err != nil {
		s.T.Fatalf("%v", err)
	}
	dy := s.Normal(y[0].Shape...)
	bad := x // not the weights: padding is multiplied with them
	if which == "x" {
		bad = dy
	}
	if len(bad.F) > 0 && s.Bool("not finite") {
		bad.F[s.Rng.IntN(len(bad.F))] = []float64{math.Inf(1), math.NaN()}[s.Rng.IntN(2)]
	}
	switch which {
	case "x":
		return Of(ops.Conv2DGradX{Of: op, H: h, W: w}, 1e-4, f, dy)
	case "w":
		return Of(ops.Conv2DGradW{Of: op, KH: kh, KW: kw}, 2e-4, x, dy)
	}
	return Of(op, 1e-4, x, f)
}

func drawPool(s Source) (ref.Array, ops.MaxPool2D) {
	k := s.Size("kernel", 4)
	p := ops.MaxPool2D{Kernel: k, Stride: s.Size("stride", 5), Pad: rapid.IntRange(0, k/2).Draw(s.T, "pad")}
	if s.Bool("side by side") {
		k, p = 2, ops.MaxPool2D{Kernel: 2, Stride: 2}
	}
	h, w := k+rapid.IntRange(0, 9).Draw(s.T, "h"), k+rapid.IntRange(0, 70).Draw(s.T, "w")
	if s.Bool("low") { // as high as the windows must have, with padding
		h = max(1, k-2*p.Pad) + rapid.IntRange(0, 2).Draw(s.T, "more h")
	}
	x := s.Normal(s.Dim("n", 3), s.Dim("c", 3), h, w)
	for i := range x.F {
		x.F[i] = math.Round(4*x.F[i]) / 4 // so that equals occur
	}
	return x, p
}

// RoundedAttention is how far attention that rounds its factors to bfloat16 may be from the
// reference. A probability close to the middle of two neighbours, which are 2^-8 of it apart, may be rounded to
// the other one. It is multiplied with numbers of a normal distribution, of which few are above 4,
// and the gradient of a score with the difference of two of these, of which several are added up.
const RoundedAttention = 1.0 / 64

func tolerance(op ops.Attention, exact float64) float64 {
	if op.BF16 {
		return RoundedAttention
	}
	return exact
}

func drawAttention(s Source) (ops.Attention, []ref.Array) {
	op := ops.Attention{KVHeads: s.Size("groups", 2), Full: s.Bool("full"), Padded: s.Bool("padded"), BF16: s.Bool("bf16"), Seed: 5, ID: 8}
	op.Heads = op.KVHeads * s.Size("shared", 3)
	if s.Bool("windowed") {
		op.Window = s.Size("window", 80)
	}
	b, t := s.Dim("b", 3), s.Dim("t", 70)
	in := []ref.Array{s.Normal(b, t, (op.Heads+2*op.KVHeads)*s.Size("width", 9))}
	if op.Padded {
		in = append(in, s.IDs(t+2, b))
	}
	if op.Packed = !op.Full && !op.Padded && s.Bool("packed"); op.Packed {
		in = append(in, s.Packed(b, t))
	}
	if s.Bool("dropout") {
		op.P = 0.3
		in = append(in, s.IDs(100), s.IDs(1000))
	}
	return op, in
}

// Packed are positions of sequences of 1 to 30 in a row, i32[b,t].
func (s Source) Packed(b, t int) ref.Array {
	x := ref.New(shape.I32(b, t))
	next := 0
	for i := range x.I {
		if i%t > 0 && s.Rng.IntN(15) > 0 && next < 30 {
			x.I[i] = x.I[i-1] + 1
		}
		next = int(x.I[i])
	}
	return x
}
