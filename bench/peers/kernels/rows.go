package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// maxBytes bounds the arguments and results of a row, which every side holds. It leaves out the head of
// llama-1b alone.
const maxBytes = 512 << 20

// row is a kernel to measure: an op on tensors of some shapes.
type row struct {
	name string // "matmul 768x128 128x384"
	op   graph.Op
	in   []shape.Meta // of the op
	out  []shape.Meta
	uses []string    // "gpt-nano y"
	kept bool        // its second input is a weight that stays from run to run, so that it may stay packed
	of   *graph.Node // of a gradient that reads what another op made: that op's node
}

// kinds are the ops that are compared.
var kinds = []string{
	"matmul", "conv2d", "conv2d_grad_x", "conv2d_grad_w", "max_pool2d", "max_pool2d_grad", "layer_norm", "layer_norm_grad",
	"rms_norm", "rms_norm_grad", "softmax", "softmax_grad", "attention", "attention_grad",
}

// allRows lists the rows of all nets, each kernel once.
func allRows() ([]*row, error) {
	var rows []*row
	known := map[string]*row{}
	add := func(n *graph.Node, use, net string, kept bool) error {
		r := newRow(n, kept)
		if r == nil {
			return nil
		}
		if known[r.name] == nil {
			known[r.name] = r
			rows = append(rows, r)
		}
		known[r.name].use(net + " " + use)
		return nil
	}
	for _, t := range nets() {
		g, err := t.graph()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		backward := false
		for _, n := range g.Nodes {
			backward = backward || isLoss(n)
			if t.answers && n.Op.Kind() != "matmul" {
				continue
			}
			if err := add(n, passOf(n, backward), t.name, t.answers); err != nil {
				return nil, err
			}
		}
	}
	g, err := scores()
	if err != nil {
		return nil, err
	}
	for _, n := range g.Nodes {
		if err := add(n, map[bool]string{true: "dx", false: "y"}[n.Op.Kind() == "softmax_grad"], "scores", false); err != nil {
			return nil, err
		}
	}
	for _, r := range slices.Clone(rows) {
		half := *r
		switch op := r.op.(type) {
		case ops.MatMul:
			op.BF16 = true
			// Of the gradient of a weight both factors are new in each step.
			half.op, half.kept = op, !op.TransA
		case ops.Conv2D:
			op.BF16 = true
			half.op = op
		case ops.Conv2DGradX:
			op.Of.BF16 = true
			half.op = op
		case ops.Conv2DGradW:
			op.Of.BF16 = true
			half.op = op
		default:
			continue
		}
		half.name = strings.TrimSuffix(r.name, " kept") + " bf16"
		if known[half.name] == nil {
			known[half.name] = &half
			rows = append(rows, &half)
		}
	}
	return rows, nil
}

// newRow is the row of a node; nil if it is not compared.
func newRow(n *graph.Node, kept bool) *row {
	r := &row{op: n.Op, in: graph.Metas(n.In), out: graph.Metas(n.Out), kept: kept}
	if !slices.Contains(kinds, n.Op.Kind()) || r.bytes() > maxBytes {
		return nil
	}
	switch n.Op.(type) {
	case ops.MaxPool2DGrad, ops.AttentionGrad:
		for _, v := range n.In {
			if v.Node != nil && slices.Contains([]string{"max_pool2d", "attention"}, v.Node.Op.Kind()) {
				r.of = v.Node
			}
		}
	}
	if op, ok := n.Op.(ops.MatMul); ok && !op.TransA {
		// Leading dimensions are more rows of one product.
		a := r.in[0].Shape
		r.in[0] = shape.F32(a[:len(a)-1].Elems(), a[len(a)-1])
		c := r.out[0].Shape
		r.out[0] = shape.F32(c[:len(c)-1].Elems(), c[len(c)-1])
	}
	r.name = r.title()
	return r
}

func (r *row) use(what string) {
	if !slices.Contains(r.uses, what) {
		r.uses = append(r.uses, what)
	}
}

// bytes are those of all arguments and results.
func (r *row) bytes() (n int64) {
	for _, m := range slices.Concat(r.in, r.out) {
		n += m.Bytes()
	}
	return n
}

// bf16 reports whether factors are rounded to bfloat16.
func (r *row) bf16() bool {
	op, ok := r.op.(ops.MatMul)
	return ok && op.BF16 || convOp(r.op).BF16
}

// title is the name of a row: the op, its tensors, and what else it depends on.
func (r *row) title() string {
	kind := r.op.Kind() + " "
	switch op := r.op.(type) {
	case ops.MatMul:
		t := kind + dims(r.in[0].Shape) + mark(op.TransA) + " " + dims(r.in[1].Shape) + mark(op.TransB)
		if r.kept {
			t += " kept"
		}
		return t
	case ops.Conv2D, ops.Conv2DGradX, ops.Conv2DGradW:
		c := r.conv()
		t := kind + dims(c.x) + " " + dims(c.w)
		if c.stride > 1 {
			t += fmt.Sprint(" stride ", c.stride)
		}
		if c.groups > 1 {
			t += " depthwise"
		}
		return t
	case ops.MaxPool2D, ops.MaxPool2DGrad:
		p := r.pool()
		return kind + dims(p.x) + fmt.Sprintf(" by %d stride %d", p.kernel, p.stride)
	case ops.Attention, ops.AttentionGrad:
		a := r.attention()
		t := kind + fmt.Sprintf("%dx%d heads %d of %d", a.batch, a.tokens, a.heads, a.size)
		if a.kvHeads != a.heads {
			t += fmt.Sprintf(" keys %d", a.kvHeads)
		}
		if a.full {
			t += " full"
		}
		return t
	}
	return kind + dims(r.in[0].Shape)
}

func dims(s shape.Shape) string {
	var ds []string
	for _, d := range s {
		ds = append(ds, fmt.Sprint(d))
	}
	return strings.Join(ds, "x")
}

// mark is the mark of a transposed operand.
func mark(transposed bool) string {
	if transposed {
		return "T"
	}
	return ""
}

// product is m x n numbers, each a sum of k products.
type product struct {
	m, n, k        int
	transA, transB bool
}

func (r *row) product() product {
	op := r.op.(ops.MatMul)
	m, n, k := op.Dims(r.in[0].Shape, r.in[1].Shape)
	return product{m, n, k, op.TransA, op.TransB}
}

// conv is a convolution or a gradient of it.
type conv struct {
	x, w, y             shape.Shape
	stride, pad, groups int
}

func (r *row) conv() conv {
	op := convOp(r.op)
	switch r.op.(type) {
	case ops.Conv2DGradX:
		return conv{r.out[0].Shape, r.in[0].Shape, r.in[1].Shape, op.Stride, op.Pad, op.Groups}
	case ops.Conv2DGradW:
		return conv{r.in[0].Shape, r.out[0].Shape, r.in[1].Shape, op.Stride, op.Pad, op.Groups}
	}
	return conv{r.in[0].Shape, r.in[1].Shape, r.out[0].Shape, op.Stride, op.Pad, op.Groups}
}

// convOp is the convolution that an op is, or is a gradient of; the zero value of others.
func convOp(op graph.Op) ops.Conv2D {
	switch op := op.(type) {
	case ops.Conv2D:
		return op
	case ops.Conv2DGradX:
		return op.Of
	case ops.Conv2DGradW:
		return op.Of
	}
	return ops.Conv2D{}
}

// pool is a maxpool or its gradient.
type pool struct {
	x, y                shape.Shape
	kernel, stride, pad int
}

func (r *row) pool() pool {
	op, ok := r.op.(ops.MaxPool2D)
	if !ok {
		op = r.of.Op.(ops.MaxPool2D)
		return pool{r.out[0].Shape, r.in[0].Shape, op.Kernel, op.Stride, op.Pad}
	}
	return pool{r.in[0].Shape, r.out[0].Shape, op.Kernel, op.Stride, op.Pad}
}

// attention is attention or its gradient.
type attention struct {
	batch, tokens, heads, kvHeads, size int
	full                                bool
}

func (r *row) attention() attention {
	op, ok := r.op.(ops.Attention)
	if !ok {
		op = ops.Attention(r.op.(ops.AttentionGrad))
	}
	groups := op.KVHeads
	if groups == 0 {
		groups = op.Heads
	}
	s := r.in[0].Shape
	return attention{s[0], s[1], op.Heads, groups, s[2] / (op.Heads + 2*groups), op.Full}
}

// given are the tensors that both sides get: the op's inputs, without those that an op before it makes.
func (r *row) given() [][]float32 {
	var ms []shape.Meta
	switch r.op.(type) {
	case ops.MaxPool2DGrad: // x, dy
		ms = []shape.Meta{graph.Metas(r.of.In)[0], r.in[1]}
	case ops.AttentionGrad: // qkv, dy
		ms = []shape.Meta{r.in[0], r.in[3]}
	case ops.LayerNormGrad: // x, gamma, dy
		ms = []shape.Meta{r.in[0], r.in[1], r.in[4]}
	case ops.RMSNormGrad:
		ms = []shape.Meta{r.in[0], r.in[1], r.in[3]}
	default:
		ms = r.in
	}
	var all [][]float32
	for i, m := range ms {
		x := make([]float32, m.Shape.Elems())
		fill(x, uint64(i+1))
		all = append(all, x)
	}
	switch r.op.(type) {
	case ops.RMSNorm:
		centre(all[0], nil, len(all[1]))
	case ops.RMSNormGrad:
		centre(all[0], nil, len(all[1]))
		centre(all[2], all[1], len(all[1]))
	}
	return all
}

// fill writes numbers between -1 and 1 that look random (splitmix64; Steele, Lea and Flood 2014).
func fill(x []float32, seed uint64) {
	s := seed << 32
	for i := range x {
		s += 0x9e3779b97f4a7c15
		z := (s ^ s>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		x[i] = float32(int32(z>>32)) / (1 << 31)
	}
}

// centre makes the mean of each row 0, or the sum of its products with by. The layer normalization of such
// rows is their RMS normalization, and so are the gradients.
func centre(x, by []float32, width int) {
	for ; len(x) > 0; x = x[width:] {
		sum, squares := 0.0, float64(width)
		if by != nil {
			squares = 0
		}
		for i, v := range x[:width] {
			if by == nil {
				sum += float64(v)
			} else {
				sum += float64(v) * float64(by[i])
				squares += float64(by[i]) * float64(by[i])
			}
		}
		for i := range x[:width] {
			d := sum / squares
			if by != nil {
				d *= float64(by[i])
			}
			x[i] -= float32(d)
		}
	}
}

// statistics are the mean and the variance of each row.
func statistics(x []float32, width int) (mean, variance []float32) {
	for ; len(x) > 0; x = x[width:] {
		sum, squares := 0.0, 0.0
		for _, v := range x[:width] {
			sum += float64(v)
		}
		m := sum / float64(width)
		for _, v := range x[:width] {
			squares += (float64(v) - m) * (float64(v) - m)
		}
		mean, variance = append(mean, float32(m)), append(variance, float32(squares/float64(width)))
	}
	return mean, variance
}
