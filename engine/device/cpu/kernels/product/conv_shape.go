package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// convShape is the sizes of a convolution between x [N,C,H,W], w [O,C/G,KH,KW]
// and y [N,O,H',W'], where C and O are channels in and out, and G is groups.
type convShape struct {
	on              work.Target
	n, c, o, groups int
	kh, kw          int
	h, w            int // pixels of x
	oh, ow          int // pixels of y
	stride, pad     int
	apart           int  // pixels from an element of a window to the next
	bf16            bool // factors are rounded to bfloat16

	// of is the whole, where it computes some of the samples or channels out; else itself.
	// All on which a bit depends is decided by its sizes.
	of *convShape
}

// convRoles is the shapes of x, w and y of a node that is a convolution or a gradient of one.
type convRoles func(n *graph.Node) (x, w, y shape.Shape)

func convShapeOf(on work.Target, n *graph.Node, op ops.Conv2D, roles convRoles) *convShape {
	of := func(n *graph.Node) *convShape {
		x, w, y := roles(n)
		s := &convShape{
			on: on, n: x[0], c: x[1], o: y[1], groups: op.Groups, kh: w[2], kw: w[3],
			h: x[2], w: x[3], oh: y[2], ow: y[3], stride: op.Stride, pad: op.Pad, apart: op.Apart(), bf16: op.BF16,
		}
		s.of = s
		return s
	}
	s := of(n)
	if whole := n.Whole(); whole != n {
		s.of = of(whole)
	}
	return s
}

// pairs reports whether factors that are rounded are multiplied by AVX512_BF16, two in a word.
func (s *convShape) pairs() bool { return s.bf16 && s.on.ISA == isa.AVX512 && s.on.Pairs }

// isPart reports whether it computes less than the whole.
func (s *convShape) isPart() bool { return s.of != s }

// kk is the elements of a window; px and py are the pixels of x and of y.
func (s *convShape) kk() int { return s.kh * s.kw }
func (s *convShape) px() int { return s.h * s.w }
func (s *convShape) py() int { return s.oh * s.ow }

// cg and og are the channels in and out of a group.
func (s *convShape) cg() int { return s.c / s.groups }
func (s *convShape) og() int { return s.o / s.groups }

// lenX, lenW and lenY are the elements of the three tensors.
func (s *convShape) lenX() int { return s.n * s.c * s.px() }
func (s *convShape) lenW() int { return s.cg() * s.o * s.kk() }
func (s *convShape) lenY() int { return s.n * s.o * s.py() }

// windowsOfX is how y and dw read x.
func (s *convShape) windowsOfX() im2col {
	return im2col{
		isa: s.on.ISA, h: s.h, w: s.w, kh: s.kh, kw: s.kw, oh: s.oh, ow: s.ow,
		mul: s.stride, dir: s.apart, off: -s.pad,
	}
}

// windowsOfY is how dx reads dy where the stride is 1.
func (s *convShape) windowsOfY() im2col {
	return im2col{
		isa: s.on.ISA, h: s.oh, w: s.ow, kh: s.kh, kw: s.kw, oh: s.h, ow: s.w,
		mul: 1, dir: -s.apart, off: s.pad,
	}
}

// planes is a convolution that reads one tensor of planes and writes another: y
// from x, or dx from dy. "In" and "out" are seen from it: for dx, the channels
// in are those of y.
type planes struct {
	isa    isa.ISA
	pairs  bool // see [convShape]
	im     im2col
	count  int // products: samples times groups
	whole  int // products of the whole, by which decisions about bits are made
	groups int
	cg, og int // channels in and out of a group
	wc, wo int // elements of w from one channel in to the next, and from one channel out
}

// forward is y from x.
func (s *convShape) forward() planes {
	return planes{
		isa: s.on.ISA, pairs: s.pairs(), im: s.windowsOfX(), count: s.n * s.groups, whole: s.of.n * s.groups, groups: s.groups,
		cg: s.cg(), og: s.og(), wc: s.kk(), wo: s.cg() * s.kk(),
	}
}

// backward is dx from dy, where the stride is 1.
func (s *convShape) backward() planes {
	return planes{
		isa: s.on.ISA, pairs: s.pairs(), im: s.windowsOfY(), count: s.n * s.groups, whole: s.of.n * s.groups, groups: s.groups,
		cg: s.og(), og: s.cg(), wc: s.cg() * s.kk(), wo: s.kk(),
	}
}

// kk is the elements of a window.
func (s *planes) kk() int { return s.im.kh * s.im.kw }
