package elem

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/strided"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// elementwiseKernels compute each element from the elements at the same place. All may
// run in place.
var elementwiseKernels = work.Table{
	"neg(f32)->f32":       unary(func(f *vec.Funcs) unaryFunc { return f.Neg }),
	"relu(f32)->f32":      unary(func(f *vec.Funcs) unaryFunc { return f.Relu }),
	"gelu_tanh(f32)->f32": unary(func(f *vec.Funcs) unaryFunc { return f.GeluTanh }),
	"gelu_erf(f32)->f32":  unary(func(f *vec.Funcs) unaryFunc { return f.GeluErf }),
	"silu(f32)->f32":      unary(func(f *vec.Funcs) unaryFunc { return f.Silu }),
	"sigmoid(f32)->f32":   unary(func(f *vec.Funcs) unaryFunc { return f.Sigmoid }),
	"tanh(f32)->f32":      unary(func(f *vec.Funcs) unaryFunc { return f.Tanh }),
	"exp(f32)->f32":       unary(func(f *vec.Funcs) unaryFunc { return f.Exp }),
	"log(f32)->f32":       unary(func(f *vec.Funcs) unaryFunc { return f.Log }),
	"sqrt(f32)->f32":      unary(func(f *vec.Funcs) unaryFunc { return f.Sqrt }),
	"rsqrt(f32)->f32":     unary(func(f *vec.Funcs) unaryFunc { return f.Rsqrt }),
	"square(f32)->f32":    unary(func(f *vec.Funcs) unaryFunc { return f.Square }),
	"abs(f32)->f32":       unary(func(f *vec.Funcs) unaryFunc { return f.Abs }),
	"affine(f32)->f32":    newAffine,

	"relu_grad(f32,f32)->f32":      pair(func(f *vec.Funcs) pairFunc { return f.ReluGrad }),
	"gelu_tanh_grad(f32,f32)->f32": pair(func(f *vec.Funcs) pairFunc { return f.GeluTanhGrad }),
	"gelu_erf_grad(f32,f32)->f32":  pair(func(f *vec.Funcs) pairFunc { return f.GeluErfGrad }),
	"silu_grad(f32,f32)->f32":      pair(func(f *vec.Funcs) pairFunc { return f.SiluGrad }),
	"sigmoid_grad(f32,f32)->f32":   pair(func(f *vec.Funcs) pairFunc { return f.SigmoidGrad }),
	"tanh_grad(f32,f32)->f32":      pair(func(f *vec.Funcs) pairFunc { return f.TanhGrad }),
	"exp_grad(f32,f32)->f32":       pair(func(f *vec.Funcs) pairFunc { return f.ExpGrad }),
	"log_grad(f32,f32)->f32":       pair(func(f *vec.Funcs) pairFunc { return f.LogGrad }),
	"sqrt_grad(f32,f32)->f32":      pair(func(f *vec.Funcs) pairFunc { return f.SqrtGrad }),
	"rsqrt_grad(f32,f32)->f32":     pair(func(f *vec.Funcs) pairFunc { return f.RsqrtGrad }),
	"square_grad(f32,f32)->f32":    pair(func(f *vec.Funcs) pairFunc { return f.SquareGrad }),
	"abs_grad(f32,f32)->f32":       pair(func(f *vec.Funcs) pairFunc { return f.AbsGrad }),
	"lerp(f32,f32)->f32":           newLerp,
	"swiglu(f32,f32)->f32":         pair(func(f *vec.Funcs) pairFunc { return f.Swiglu }),
	"geglu(f32,f32)->f32":          pair(func(f *vec.Funcs) pairFunc { return f.Geglu }),
	"geglu_tanh(f32,f32)->f32":     pair(func(f *vec.Funcs) pairFunc { return f.GegluTanh }),

	"fill()->f32": newFill,
	"fill()->i32": newFill,
}

type (
	unaryFunc  = func(y, x []float32)
	pairFunc   = func(y, a, b []float32)
	scalarFunc = func(y, x []float32, s float32)
)

// unaryKernel is y[i] = f(x[i]).
type unaryKernel struct {
	n    int
	f    unaryFunc
	y, x []float32
}

// unary makes kernels of one of the functions of an instruction set.
func unary(of func(*vec.Funcs) unaryFunc) work.Constructor {
	return func(n *graph.Node, on work.Target) (work.Kernel, error) { return newUnary(n, of(on.ISA.Vec())), nil }
}

func newUnary(n *graph.Node, f unaryFunc) *unaryKernel {
	return &unaryKernel{n: work.Out(n, 0).Elems(), f: f}
}

func (k *unaryKernel) ScratchBytes() int64 { return 0 }

func (k *unaryKernel) Run(p work.Pool, a *work.Args) error {
	k.y, k.x = work.Floats(a.Out[0], k.n), work.Floats(a.In[0], k.n)
	work.Do(p, work.CeilDiv(k.n, work.Grain), k)
	return nil
}

func (k *unaryKernel) Chunk(i int) {
	lo, hi := work.Interval(i, work.Grain, k.n)
	k.f(k.y[lo:hi], k.x[lo:hi])
}

// pairKernel is y[i] = f(a[i], b[i]).
type pairKernel struct {
	n       int
	f       pairFunc
	y, a, b []float32
}

// pair makes kernels of one of the functions of an instruction set.
func pair(of func(*vec.Funcs) pairFunc) work.Constructor {
	return func(n *graph.Node, on work.Target) (work.Kernel, error) { return newPair(n, of(on.ISA.Vec())), nil }
}

func newPair(n *graph.Node, f pairFunc) *pairKernel {
	return &pairKernel{n: work.Out(n, 0).Elems(), f: f}
}

func (k *pairKernel) ScratchBytes() int64 { return 0 }

func (k *pairKernel) Run(p work.Pool, a *work.Args) error {
	k.y, k.a, k.b = work.Floats(a.Out[0], k.n), work.Floats(a.In[0], k.n), work.Floats(a.In[1], k.n)
	work.Do(p, work.CeilDiv(k.n, work.Grain), k)
	return nil
}

func (k *pairKernel) Chunk(i int) {
	lo, hi := work.Interval(i, work.Grain, k.n)
	k.f(k.y[lo:hi], k.a[lo:hi], k.b[lo:hi])
}

// NewMap makes the kernel of a node whose op is a [graph.Mapper].
func NewMap(n *graph.Node) work.Kernel {
	op := n.Op.(graph.Mapper)
	if len(n.In) == 1 {
		return newUnary(n, func(y, x []float32) { op.Map(y, x, nil) })
	}
	return newPair(n, op.Map)
}

func newAffine(n *graph.Node, on work.Target) (work.Kernel, error) {
	op, f := n.Op.(ops.Affine), on.ISA.Vec().Affine
	scale, shift := float32(op.Scale), float32(op.Shift)
	return newUnary(n, func(y, x []float32) { f(y, x, scale, shift) }), nil
}

func newLerp(n *graph.Node, on work.Target) (work.Kernel, error) {
	t, f := float32(n.Op.(ops.Lerp).T), on.ISA.Vec().Lerp
	return newPair(n, func(y, a, b []float32) { f(y, a, b, t) }), nil
}

// fillKernel writes one word of four bytes everywhere.
type fillKernel struct {
	isa  isa.ISA
	n    int
	word [1]int32
	y    []int32
}

func newFill(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := n.Op.(ops.Fill)
	k := &fillKernel{isa: on.ISA, n: op.Meta.Elems(), word: [1]int32{int32(math.Float32bits(float32(op.Value)))}}
	if op.Meta.DType == shape.Int32 {
		k.word[0] = int32(op.Value)
	}
	return k, nil
}

func (k *fillKernel) ScratchBytes() int64 { return 0 }

func (k *fillKernel) Run(p work.Pool, a *work.Args) error {
	k.y = work.Ints(a.Out[0], k.n)
	work.Do(p, work.CeilDiv(k.n, work.Grain), k)
	return nil
}

func (k *fillKernel) Chunk(i int) {
	lo, hi := work.Interval(i, work.Grain, k.n)
	strided.StretchRows(k.isa, k.y[lo:hi], k.word[:], 0, 0, 1, hi-lo)
}
