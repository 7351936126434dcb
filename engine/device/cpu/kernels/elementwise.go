package kernels

import (
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// elementwiseKernels holds what computes each element from the elements at the
// same place. All may run in place.
var elementwiseKernels = map[string]constructor{
	"neg(f32)->f32":       unary(func(x float32) float32 { return -x }),
	"relu(f32)->f32":      unaryLoop(relu),
	"gelu_tanh(f32)->f32": unary(geluTanhf),
	"gelu_erf(f32)->f32":  unary(geluErff),
	"silu(f32)->f32":      unary(siluf),
	"sigmoid(f32)->f32":   unary(sigmoidf),
	"tanh(f32)->f32":      unary(tanhf),
	"exp(f32)->f32":       unary(expf),
	"log(f32)->f32":       unary(logf),
	"sqrt(f32)->f32":      unary(sqrtf),
	"rsqrt(f32)->f32":     unary(rsqrtf),
	"square(f32)->f32":    unary(func(x float32) float32 { return x * x }),
	"abs(f32)->f32":       unary(absf),
	"affine(f32)->f32":    newAffine,

	"relu_grad(f32,f32)->f32":      pairLoop(reluGrad),
	"gelu_tanh_grad(f32,f32)->f32": pair(geluTanhGradf),
	"gelu_erf_grad(f32,f32)->f32":  pair(geluErfGradf),
	"silu_grad(f32,f32)->f32":      pair(siluGradf),
	"sigmoid_grad(f32,f32)->f32":   pair(func(y, dy float32) float32 { return dy * (y * (1 - y)) }),
	"tanh_grad(f32,f32)->f32":      pair(func(y, dy float32) float32 { return dy * ((1 - y) * (1 + y)) }),
	"exp_grad(f32,f32)->f32":       pair(func(y, dy float32) float32 { return dy * y }),
	"log_grad(f32,f32)->f32":       pair(func(x, dy float32) float32 { return dy / x }),
	"sqrt_grad(f32,f32)->f32":      pair(func(y, dy float32) float32 { return dy * (0.5 / y) }),
	"rsqrt_grad(f32,f32)->f32":     pair(func(y, dy float32) float32 { return dy * (-0.5 * (y * y * y)) }),
	"square_grad(f32,f32)->f32":    pair(func(x, dy float32) float32 { return dy * (2 * x) }),
	"abs_grad(f32,f32)->f32":       pair(absGradf),
	"lerp(f32,f32)->f32":           newLerp,

	"fill()->f32": newFill,
	"fill()->i32": newFill,
}

// unaryKernel is y[i] = f(x[i]).
type unaryKernel struct {
	n    int
	f    func(y, x []float32)
	y, x []float32
}

// unary makes kernels of a function of one element.
func unary(f func(x float32) float32) constructor {
	return unaryLoop(func(y, x []float32) {
		y = y[:len(x)]
		for i, v := range x {
			y[i] = f(v)
		}
	})
}

// unaryLoop makes kernels of a function of a run of elements.
func unaryLoop(f func(y, x []float32)) constructor {
	return func(n *graph.Node) (Kernel, error) { return &unaryKernel{n: out(n, 0).Elems(), f: f}, nil }
}

func (k *unaryKernel) ScratchBytes() int64 { return 0 }

func (k *unaryKernel) Run(p Pool, a *Args) error {
	k.y, k.x = floats(a.Out[0], k.n), floats(a.In[0], k.n)
	do(p, chunks(k.n, grain), k)
	return nil
}

func (k *unaryKernel) Chunk(i int) {
	lo, hi := span(i, grain, k.n)
	k.f(k.y[lo:hi], k.x[lo:hi])
}

// pairKernel is y[i] = f(a[i], b[i]).
type pairKernel struct {
	n       int
	f       func(y, a, b []float32)
	y, a, b []float32
}

// pair makes kernels of a function of two elements.
func pair(f func(a, b float32) float32) constructor {
	return pairLoop(func(y, a, b []float32) {
		y, b = y[:len(a)], b[:len(a)]
		for i, v := range a {
			y[i] = f(v, b[i])
		}
	})
}

// pairLoop makes kernels of a function of two runs of elements.
func pairLoop(f func(y, a, b []float32)) constructor {
	return func(n *graph.Node) (Kernel, error) { return newPair(n, f), nil }
}

func newPair(n *graph.Node, f func(y, a, b []float32)) *pairKernel {
	return &pairKernel{n: out(n, 0).Elems(), f: f}
}

func (k *pairKernel) ScratchBytes() int64 { return 0 }

func (k *pairKernel) Run(p Pool, a *Args) error {
	k.y, k.a, k.b = floats(a.Out[0], k.n), floats(a.In[0], k.n), floats(a.In[1], k.n)
	do(p, chunks(k.n, grain), k)
	return nil
}

func (k *pairKernel) Chunk(i int) {
	lo, hi := span(i, grain, k.n)
	k.f(k.y[lo:hi], k.a[lo:hi], k.b[lo:hi])
}

// relu keeps NaN: only what is known to be negative becomes 0. The sign bit
// clears the whole word, so that random signs cost no mispredicted branches.
func relu(y, x []float32) {
	y = y[:len(x)]
	for i, v := range x {
		b := math.Float32bits(v)
		if b <= 0xff800000 { // not a NaN with a sign
			b &^= uint32(int32(b) >> 31)
		}
		y[i] = math.Float32frombits(b)
	}
}

// reluGrad lets dy pass where the output y is positive (or NaN).
func reluGrad(dx, y, dy []float32) {
	dx, dy = dx[:len(y)], dy[:len(y)]
	for i, v := range y {
		b := math.Float32bits(dy[i])
		if v <= 0 {
			b = 0
		}
		dx[i] = math.Float32frombits(b)
	}
}

func absf(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

func absGradf(x, dy float32) float32 {
	switch {
	case x > 0:
		return dy
	case x < 0:
		return -dy
	}
	return 0
}

func newAffine(n *graph.Node) (Kernel, error) {
	op := n.Op.(ops.Affine)
	scale, shift := float32(op.Scale), float32(op.Shift)
	return unary(func(x float32) float32 { return float32(x*scale) + shift })(n)
}

func newLerp(n *graph.Node) (Kernel, error) {
	t := float32(n.Op.(ops.Lerp).T)
	return pair(func(a, b float32) float32 { return a + float32(t*(b-a)) })(n)
}

// fillKernel writes one 4-byte word everywhere.
type fillKernel struct {
	n    int
	word int32
	y    []int32
}

func newFill(n *graph.Node) (Kernel, error) {
	op := n.Op.(ops.Fill)
	k := &fillKernel{n: op.Meta.Elems(), word: int32(math.Float32bits(float32(op.Value)))}
	if op.Meta.DType == shape.Int32 {
		k.word = int32(op.Value)
	}
	return k, nil
}

func (k *fillKernel) ScratchBytes() int64 { return 0 }

func (k *fillKernel) Run(p Pool, a *Args) error {
	k.y = ints(a.Out[0], k.n)
	do(p, chunks(k.n, grain), k)
	return nil
}

func (k *fillKernel) Chunk(i int) {
	lo, hi := span(i, grain, k.n)
	y := k.y[lo:hi]
	for j := range y {
		y[j] = k.word
	}
}
