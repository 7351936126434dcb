package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var convKernels = work.Table{
	"conv2d(f32,f32)->f32":        newConv,
	"conv2d_grad_x(f32,f32)->f32": newConvGradX,
	"conv2d_grad_w(f32,f32)->f32": newConvGradW,
}

// convolver is a way of computing y, dx or dw. The shape decides which, when the
// kernel is made.
type convolver interface {
	// scratch is the elements of scratch memory that a run needs.
	scratch() int
	// run computes out from two factors: y from x and w, dx from dy and w, or dw
	// from x and dy. then follows y and dx, if it is not nil.
	run(p work.Pool, a, b, out, scratch []float32, then *work.Epilogue)
}

// convKernel is a convolution or one of its gradients.
type convKernel struct {
	way                convolver
	inA, inB           int // inputs that the factors are
	lenA, lenB, lenOut int // elements
}

func (k *convKernel) ScratchBytes() int64 { return int64(k.way.scratch()) * 4 }

func (k *convKernel) run(p work.Pool, a *work.Args, then *work.Epilogue) {
	x, y, out := work.Floats(a.In[k.inA], k.lenA), work.Floats(a.In[k.inB], k.lenB), work.Floats(a.Out[0], k.lenOut)
	k.way.run(p, x, y, out, work.Floats(a.Scratch, k.way.scratch()), then)
}

// conv is y or dx, which an epilogue can follow.
type conv struct {
	convKernel
	then *work.Epilogue // nil if nothing follows
}

// Then implements [work.Follower].
func (k *conv) Then(e work.Epilogue) {
	if k.then = nil; e != nil {
		k.then = &e
	}
}

func (k *conv) Run(p work.Pool, a *work.Args) error {
	k.run(p, a, k.then)
	return nil
}

// convGradW is dw.
type convGradW struct{ convKernel }

func (k *convGradW) Run(p work.Pool, a *work.Args) error {
	k.run(p, a, nil)
	return nil
}

func newConv(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := n.Op.(ops.Conv2D)
	s := convShapeOf(on, n, op, func(n *graph.Node) (x, w, y shape.Shape) {
		return work.In(n, 0).Shape, work.In(n, 1).Shape, work.Out(n, 0).Shape
	})
	return &conv{convKernel: convKernel{way: rounded(s, wayOfY(s), s.lenX(), s.lenW()), inA: 0, inB: 1, lenA: s.lenX(), lenB: s.lenW(), lenOut: s.lenY()}}, nil
}

// wayOfY is the fastest way of y.
func wayOfY(s *convShape) convolver {
	if d := newConvDepthwise3(s, s.forward()); d != nil {
		return d
	}
	if d := newConvDepthwise(s, s.forward()); d != nil {
		return d
	}
	if d := newConvPatches(s); d != nil {
		return d
	}
	if d := wayOfPlanes(s.forward()); d != nil {
		return d
	}
	if d := newConvPoint(s, false); d != nil {
		return d
	}
	return newConvProduct(s.forward())
}

// wayOfPlanes is the fastest way without a matrix of windows, or nil.
func wayOfPlanes(s planes) convolver {
	if d := newConvAMX(s); d != nil {
		return d
	}
	if d := newConvDirect(s); d != nil {
		return d
	}
	return nil
}

func newConvGradX(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := n.Op.(ops.Conv2DGradX)
	s := convShapeOf(on, n, op.Of, func(n *graph.Node) (x, w, y shape.Shape) {
		return work.Out(n, 0).Shape, work.In(n, 0).Shape, work.In(n, 1).Shape
	})
	return &conv{convKernel: convKernel{way: rounded(s, wayOfX(s), s.lenY(), s.lenW()), inA: 1, inB: 0, lenA: s.lenY(), lenB: s.lenW(), lenOut: s.lenX()}}, nil
}

// wayOfX is the fastest way of dx.
func wayOfX(s *convShape) convolver {
	if s.stride > 1 {
		if d := newConvDepthwiseStride(s); d != nil {
			if in := newConvDepthwise3Stride(s); in != nil { // the same bits, which another way would not give
				return in
			}
			return d
		}
		in := newConvCol2im(s)
		if d := newConvPoint(s, true); d != nil && in.format == formatFloat {
			return d
		}
		return in
	}
	if d := newConvDepthwise3(s, s.backward()); d != nil {
		return d
	}
	if d := newConvDepthwise(s, s.backward()); d != nil {
		return d
	}
	if d := wayOfPlanes(s.backward()); d != nil {
		return d
	}
	if d := newConvPoint(s, true); d != nil {
		return d
	}
	return newConvExchange(s)
}

func newConvGradW(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := n.Op.(ops.Conv2DGradW)
	s := convShapeOf(on, n, op.Of, func(n *graph.Node) (x, w, y shape.Shape) {
		return work.In(n, 0).Shape, work.Out(n, 0).Shape, work.In(n, 1).Shape
	})
	return &convGradW{convKernel{way: rounded(s, wayOfW(s), s.lenX(), s.lenY()), inA: 0, inB: 1, lenA: s.lenX(), lenB: s.lenY(), lenOut: s.lenW()}}, nil
}

// wayOfW is the fastest way of dw.
func wayOfW(s *convShape) convolver {
	if d := newConvDepthwiseWGrad(s); d != nil {
		return d
	}
	if d := newConvAMXWGrad(s); d != nil {
		return d
	}
	if d := newConvDirectWGrad(s); d != nil {
		if point := newConvPointWGrad(s, d); point != nil && !d.paired { // the same bits, which another way would not give
			return point
		}
		return d
	}
	return newConvProductWGrad(s)
}
