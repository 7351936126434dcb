package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// convOps are the rows of the op table that are in this file.
var convOps = []graph.Op{Conv2D{}, Conv2DGradX{}, Conv2DGradW{}}

// Conv2D correlates x [N,C,H,W] with w [O,C/Groups,K,K'] to y [N,O,H',W'],
// H' = (H + 2 Pad - Dilation (K-1) - 1)/Stride + 1 rounded down. With groups,
// output channels of one group see the input channels of that group only. The
// elements of a window are Dilation pixels apart (Yu and Koltun, "Multi-Scale
// Context Aggregation by Dilated Convolutions", 2016); 0 is 1: side by side.
// With BF16 each element of x and w is rounded to bfloat16 first ([RoundBF16]), and so are the factors of both gradients;
// products and sums are in float32 all the same.
type Conv2D struct {
	Stride, Pad, Groups, Dilation int
	BF16                          bool
}

// Kind is "conv2d".
func (o Conv2D) Kind() string { return "conv2d" }

// Infer checks channels against groups and that the kernel fits.
func (o Conv2D) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 2); err != nil {
		return nil, err
	}
	x, w := in[0].Shape, in[1].Shape
	if x.Rank() != 4 || w.Rank() != 4 {
		return nil, fmt.Errorf("input is %v and weight %v, expected [N,C,H,W] and [O,C,K,K]", x, w)
	}
	if o.Groups < 1 || x[1]%o.Groups != 0 || w[0]%o.Groups != 0 {
		return nil, fmt.Errorf("%d groups do not divide %d input and %d output channels", o.Groups, x[1], w[0])
	}
	if x[1] != w[1]*o.Groups {
		return nil, fmt.Errorf("input has %d channels, weight expects %d (%d in each of %d groups)", x[1], w[1]*o.Groups, w[1], o.Groups)
	}
	if o.Dilation < 0 {
		return nil, fmt.Errorf("dilation %d: give at least 1, or 0 for 1", o.Dilation)
	}
	h, err := window("height", x[2], o.Span(w[2]), o.Stride, o.Pad)
	if err != nil {
		return nil, err
	}
	wd, err := window("width", x[3], o.Span(w[3]), o.Stride, o.Pad)
	if err != nil {
		return nil, err
	}
	return one(shape.F32(x[0], w[0], h, wd)), nil
}

// String is all its fields. Without dilation and BF16 it is as before there were any, since it is part of the fingerprints of runs.
func (o Conv2D) String() string { return "{" + o.fields() + "}" }

// fields is the text of its fields, without a dilation of 1 and without BF16 where it is not set.
func (o Conv2D) fields() string {
	s := fmt.Sprintf("Stride:%d Pad:%d Groups:%d", o.Stride, o.Pad, o.Groups)
	if o.Apart() > 1 {
		s += fmt.Sprintf(" Dilation:%d", o.Dilation)
	}
	if o.BF16 {
		s += " BF16:true"
	}
	return s
}

// Apart is the pixels from an element of a window to the next: Dilation, and 1 for 0.
func (o Conv2D) Apart() int { return max(1, o.Dilation) }

// Span is the pixels from the first to the last element of a window with k of them in a
// row, both included; k where that is below 1.
func (o Conv2D) Span(k int) int {
	if k < 1 {
		return k
	}
	return (k-1)*o.Apart() + 1
}

// Grad is one op per input.
func (o Conv2D) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	x, w := n.In[0], n.In[1]
	xs, ws := x.Meta.Shape, w.Meta.Shape
	return []*graph.Value{
		b.One(Conv2DGradX{o, xs[2], xs[3]}, w, dy[0]),
		b.One(Conv2DGradW{o, ws[2], ws[3]}, x, dy[0]),
	}
}

// Cost is a multiply-add per output element and weight of its group.
func (o Conv2D) Cost(in, out []shape.Meta) graph.Cost {
	w := in[1].Shape
	return perElem(2*w[1]*w[2]*w[3], out[0].Elems(), in, out)
}

// Conv2DGradX is the gradient of [Conv2D]'s input from (w, dy); H and W are
// the input's.
type Conv2DGradX struct {
	Of   Conv2D
	H, W int
}

// String is as that of [Conv2D], so that all fields are side by side.
func (o Conv2DGradX) String() string {
	return fmt.Sprintf("{%s H:%d W:%d}", o.Of.fields(), o.H, o.W)
}

// Kind is "conv2d_grad_x".
func (o Conv2DGradX) Kind() string { return "conv2d_grad_x" }

// Infer is the input whose convolution has dy's shape.
func (o Conv2DGradX) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 2); err != nil {
		return nil, err
	}
	w, d := in[0].Shape, in[1].Shape
	if w.Rank() != 4 || d.Rank() != 4 {
		return nil, fmt.Errorf("weight is %v and dy %v, expected 4 dimensions each", w, d)
	}
	x := shape.F32(d[0], w[1]*o.Of.Groups, o.H, o.W)
	return one(x), convFits(o.Of, x, in[0], in[1])
}

// Grad fails: see noSecond.
func (o Conv2DGradX) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Cost is the convolution's.
func (o Conv2DGradX) Cost(in, out []shape.Meta) graph.Cost {
	w := in[0].Shape
	return perElem(2*w[1]*w[2]*w[3], in[1].Elems(), in, out)
}

// Conv2DGradW is the gradient of [Conv2D]'s weight from (x, dy); KH and KW are
// the weight's.
type Conv2DGradW struct {
	Of     Conv2D
	KH, KW int
}

// String is as that of [Conv2D], so that all fields are side by side.
func (o Conv2DGradW) String() string {
	return fmt.Sprintf("{%s KH:%d KW:%d}", o.Of.fields(), o.KH, o.KW)
}

// Kind is "conv2d_grad_w".
func (o Conv2DGradW) Kind() string { return "conv2d_grad_w" }

// Infer is the weight whose convolution of x has dy's shape.
func (o Conv2DGradW) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 2); err != nil {
		return nil, err
	}
	x, d := in[0].Shape, in[1].Shape
	if x.Rank() != 4 || d.Rank() != 4 || o.Of.Groups < 1 {
		return nil, fmt.Errorf("input is %v and dy %v in %d groups, expected 4 dimensions each and at least 1 group", x, d, o.Of.Groups)
	}
	w := shape.F32(d[1], x[1]/o.Of.Groups, o.KH, o.KW)
	return one(w), convFits(o.Of, in[0], w, in[1])
}

// Grad fails: see noSecond.
func (o Conv2DGradW) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Cost is the convolution's.
func (o Conv2DGradW) Cost(in, out []shape.Meta) graph.Cost {
	w := out[0].Shape
	return perElem(2*w[1]*w[2]*w[3], in[1].Elems(), in, out)
}

// convFits checks that convolving x with w gives dy.
func convFits(o Conv2D, x, w, dy shape.Meta) error {
	y, err := o.Infer([]shape.Meta{x, w})
	if err != nil {
		return err
	}
	return expect("dy", dy, y[0])
}

// window is the number of windows of size k over n elements with padding.
func window(what string, n, k, stride, pad int) (int, error) {
	if k < 1 || stride < 1 || pad < 0 {
		return 0, fmt.Errorf("kernel %d, stride %d, padding %d: the kernel and the stride must be at least 1, the padding at least 0", k, stride, pad)
	}
	if n+2*pad < k {
		return 0, fmt.Errorf("kernel of %d does not fit into %s %d with padding %d", k, what, n, pad)
	}
	return (n+2*pad-k)/stride + 1, nil
}

// Conv2DOf convolves x with w, whose elements are side by side.
func Conv2DOf(b *graph.Builder, x, w *graph.Value, stride, pad, groups int) *graph.Value {
	return b.One(Conv2D{Stride: stride, Pad: pad, Groups: groups}, x, w)
}
