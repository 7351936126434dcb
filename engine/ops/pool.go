package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// poolOps are the rows of the op table that are in this file.
var poolOps = []graph.Op{MaxPool2D{}, MaxPool2DGrad{}, AvgPool2D{}, AvgPool2DGrad{}}

// MaxPool2D takes the largest element of each window of x [N,C,H,W], to
// y [N,C,H',W'] and idx i32 of the same shape: where in its plane the element
// was, h*W+w; the first of equals.
type MaxPool2D struct{ Kernel, Stride, Pad int }

// Kind is "max_pool2d".
func (o MaxPool2D) Kind() string { return "max_pool2d" }

// Infer checks that windows fit.
func (o MaxPool2D) Infer(in []shape.Meta) ([]shape.Meta, error) {
	y, err := pooled(in, o.Kernel, o.Stride, o.Pad)
	if err != nil {
		return nil, err
	}
	return []shape.Meta{f32(y), {DType: shape.Int32, Shape: y}}, nil
}

// Grad adds dy at the positions of the largest elements.
func (o MaxPool2D) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	if !onlyFirst(b, n, dy) {
		return noGrad(n)
	}
	x := n.In[0].Meta.Shape
	return []*graph.Value{b.One(MaxPool2DGrad{x[2], x[3]}, n.Out[1], dy[0])}
}

// Cost is a comparison per element of every window.
func (o MaxPool2D) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(o.Kernel*o.Kernel, out[0].Elems(), in, out)
}

// MaxPool2DGrad is dx [N,C,H,W] from (idx, dy): each element of dy, in order,
// is added to the element of its plane that idx names.
type MaxPool2DGrad struct{ H, W int }

// Kind is "max_pool2d_grad".
func (o MaxPool2DGrad) Kind() string { return "max_pool2d_grad" }

// Infer wants an index per element.
func (o MaxPool2DGrad) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if err := isInt("idx", in[0]); err != nil {
		return nil, err
	}
	if err := expect("dy", in[1], f32(in[0].Shape)); err != nil {
		return nil, err
	}
	s := in[1].Shape
	if s.Rank() != 4 {
		return nil, fmt.Errorf("dy is %v, expected [N,C,H,W]", s)
	}
	return one(shape.F32(s[0], s[1], o.H, o.W)), nil
}

// Grad fails: see noSecond.
func (o MaxPool2DGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Cost is an addition per element of dy.
func (o MaxPool2DGrad) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(1, in[1].Elems(), in, out)
}

// AvgPool2D averages each window of x [N,C,H,W]. Padding counts as zeros: the
// divisor is always Kernel².
type AvgPool2D struct{ Kernel, Stride, Pad int }

// Kind is "avg_pool2d".
func (o AvgPool2D) Kind() string { return "avg_pool2d" }

// Infer checks that windows fit.
func (o AvgPool2D) Infer(in []shape.Meta) ([]shape.Meta, error) {
	y, err := pooled(in, o.Kernel, o.Stride, o.Pad)
	if err != nil {
		return nil, err
	}
	return one(f32(y)), nil
}

// Grad spreads dy over the windows.
func (o AvgPool2D) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	x := n.In[0].Meta.Shape
	return []*graph.Value{b.One(AvgPool2DGrad{o.Kernel, o.Stride, o.Pad, x[2], x[3]}, dy[0])}
}

// Cost is an addition per element of every window.
func (o AvgPool2D) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(o.Kernel*o.Kernel, out[0].Elems(), in, out)
}

// AvgPool2DGrad is dx [N,C,H,W] from dy.
type AvgPool2DGrad struct{ Kernel, Stride, Pad, H, W int }

// Kind is "avg_pool2d_grad".
func (o AvgPool2DGrad) Kind() string { return "avg_pool2d_grad" }

// Infer is the input whose pooling has dy's shape.
func (o AvgPool2DGrad) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 1); err != nil {
		return nil, err
	}
	d := in[0].Shape
	if d.Rank() != 4 {
		return nil, fmt.Errorf("dy is %v, expected [N,C,H,W]", d)
	}
	x := one(shape.F32(d[0], d[1], o.H, o.W))
	y, err := pooled(x, o.Kernel, o.Stride, o.Pad)
	if err != nil {
		return nil, err
	}
	return x, expect("dy", in[0], f32(y))
}

// Grad fails: see noSecond.
func (o AvgPool2DGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Cost is the pooling's.
func (o AvgPool2DGrad) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(o.Kernel*o.Kernel, in[0].Elems(), in, out)
}

// pooled is the shape of pooled planes. A window must hold at least one
// element of the input, so at most half of it may be padding.
func pooled(in []shape.Meta, kernel, stride, pad int) (shape.Shape, error) {
	if err := floats(in, 1); err != nil {
		return nil, err
	}
	x := in[0].Shape
	if x.Rank() != 4 {
		return nil, fmt.Errorf("input is %v, expected [N,C,H,W]", x)
	}
	if 2*pad > kernel {
		return nil, fmt.Errorf("padding %d is more than half of kernel %d", pad, kernel)
	}
	h, err := window("height", x[2], kernel, stride, pad)
	if err != nil {
		return nil, err
	}
	w, err := window("width", x[3], kernel, stride, pad)
	if err != nil {
		return nil, err
	}
	return shape.Of(x[0], x[1], h, w), nil
}

// MaxPool is the largest element of each window.
func MaxPool(b *graph.Builder, x *graph.Value, kernel, stride, pad int) *graph.Value {
	return b.One(MaxPool2D{kernel, stride, pad}, x)
}

// AvgPool is the mean of each window, padding counted as zeros.
func AvgPool(b *graph.Builder, x *graph.Value, kernel, stride, pad int) *graph.Value {
	return b.One(AvgPool2D{kernel, stride, pad}, x)
}
