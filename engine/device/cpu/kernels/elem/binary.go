package elem

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/strided"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// binaryKernels are the arithmetic ops with NumPy broadcasting.
var binaryKernels = work.Table{
	"add(f32,f32)->f32": binary(func(f *vec.Funcs) (vv pairFunc, vs, sv scalarFunc) {
		return f.Add, f.AddScalar, f.AddScalar
	}),
	"sub(f32,f32)->f32": binary(func(f *vec.Funcs) (vv pairFunc, vs, sv scalarFunc) {
		return f.Sub, func(y, x []float32, s float32) { f.AddScalar(y, x, -s) }, f.ScalarSub
	}),
	"mul(f32,f32)->f32": binary(func(f *vec.Funcs) (vv pairFunc, vs, sv scalarFunc) {
		return f.Mul, f.MulScalar, f.MulScalar
	}),
	"div(f32,f32)->f32": binary(func(f *vec.Funcs) (vv pairFunc, vs, sv scalarFunc) {
		return f.Div, f.DivScalar, f.ScalarDiv
	}),
}

// binaryKernel is z = f(a, b). It walks along the innermost dimension that the operands
// share as one: with vv for two vectors, vs for a vector and the scalar b, sv for a
// vector b and the scalar a. Where that dimension is short, broadcast operands are
// written out a strip at a time.
type binaryKernel struct {
	isa    isa.ISA
	n      int
	dims   []int        // of the output, neighbours merged
	sa, sb []int        // strides of a and b; 0 where they are broadcast
	va, vb strided.View // each operand by itself
	vv     pairFunc
	vs, sv scalarFunc

	z, a, b []float32
}

func binary(of func(*vec.Funcs) (vv pairFunc, vs, sv scalarFunc)) work.Constructor {
	return func(n *graph.Node, on work.Target) (work.Kernel, error) {
		k := &binaryKernel{isa: on.ISA, n: work.Out(n, 0).Elems()}
		k.vv, k.vs, k.sv = of(on.ISA.Vec())
		to, a, b := work.Out(n, 0).Shape, work.In(n, 0).Shape, work.In(n, 1).Shape
		k.dims, k.sa, k.sb = mergeDims(to, a, b)
		k.va, k.vb = strided.ViewOf(to, strided.Stretched(to, a), 0), strided.ViewOf(to, strided.Stretched(to, b), 0)
		return k, nil
	}
}

func (k *binaryKernel) ScratchBytes() int64 { return 0 }

func (k *binaryKernel) Run(p work.Pool, a *work.Args) error {
	k.z, k.a, k.b = work.Floats(a.Out[0], k.n), shape.View[float32](a.In[0]), shape.View[float32](a.In[1])
	work.Do(p, work.CeilDiv(k.n, work.Grain), k)
	return nil
}

func (k *binaryKernel) Chunk(i int) {
	lo, hi := work.Interval(i, work.Grain, k.n)
	last := len(k.dims) - 1
	inner := k.dims[last]
	if last > 0 && inner < shortInner {
		k.short(lo, hi)
		return
	}
	for lo < hi {
		outer, off := lo/inner, lo%inner
		n := min(inner-off, hi-lo)
		ia, ib := offset2(outer, k.dims[:last], k.sa, k.sb)
		z := k.z[lo : lo+n]
		switch {
		case k.sa[last] == 0:
			k.sv(z, k.b[ib+off:ib+off+n], k.a[ia])
		case k.sb[last] == 0:
			k.vs(z, k.a[ia+off:ia+off+n], k.b[ib])
		default:
			k.vv(z, k.a[ia+off:ia+off+n], k.b[ib+off:ib+off+n])
		}
		lo += n
	}
}

// shortElems is the most elements of a strip of operands that are written out.
const shortElems = 1024

// shortInner is the length of an innermost dimension below which it is not worth a
// call.
const shortInner = 32

// short computes elements lo..hi in strips.
func (k *binaryKernel) short(lo, hi int) {
	r := work.TakeRegisters()
	for ; lo < hi; lo += shortElems {
		n := min(shortElems, hi-lo)
		k.vv(k.z[lo:lo+n], k.va.Contiguous(k.isa, r.All[:n], k.a, lo), k.vb.Contiguous(k.isa, r.All[shortElems:][:n], k.b, lo))
	}
	r.GiveBack()
}

// offset2 is where the elements at linear index i of dims lie in two operands.
func offset2(i int, dims, sa, sb []int) (a, b int) {
	for d := len(dims) - 1; d >= 0; d-- {
		j := i % dims[d]
		i /= dims[d]
		a += j * sa[d]
		b += j * sb[d]
	}
	return a, b
}

// mergeDims writes a broadcast of a and b to out with as few dimensions as possible,
// and at least one: dimensions of 1 go, and neighbours along which both operands move
// in the same way become one.
func mergeDims(out, a, b shape.Shape) (dims, sa, sb []int) {
	ta, tb := strided.Stretched(out, a), strided.Stretched(out, b)
	for d, size := range out {
		if size == 1 {
			continue
		}
		if m := len(dims) - 1; m >= 0 && sa[m] == size*ta[d] && sb[m] == size*tb[d] {
			dims[m] *= size
			sa[m], sb[m] = ta[d], tb[d]
			continue
		}
		dims, sa, sb = append(dims, size), append(sa, ta[d]), append(sb, tb[d])
	}
	if len(dims) == 0 {
		return []int{1}, []int{1}, []int{1}
	}
	return dims, sa, sb
}
