package kernels

import (
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device/cpu/blas"
)

// library computes the products of matrices that lie in memory, if it is not
// nil. It gets whole tiles, and each call runs in its own thread: the bits
// depend on the shapes and the library alone.
var library atomic.Pointer[blas.Library]

// UseLibrary makes the products of matrices go through a library and not
// through this package's kernels, for the whole process; nil ends that. It must
// be called before kernels are made. Convolutions, which read images through
// windows, and products of bfloat16 do not take it.
func UseLibrary(l *blas.Library) { library.Store(l) }

// UsingLibrary is the library that was set last, or nil.
func UsingLibrary() *blas.Library { return library.Load() }

// takesLibrary reports whether a library computes g.
func (g *gemm) usesLibrary() bool {
	return g.im == nil && g.format == formatFloat && library.Load() != nil
}

// call computes a tile with the library.
func (g *gemm) callLibrary(ws *workspace, i0, i1, j0, j1 int) {
	g.a.check(i1, g.k)
	g.b.check(g.k, j1)
	_ = g.c[(i1-1)*g.ldc+j1-1]
	out := blas.Matrix{Data: &g.c[i0*g.ldc+j0], Stride: max(g.ldc, j1-j0)}
	ws.call.Multiply(library.Load(), i1-i0, j1-j0, g.k, g.a.matrix(i0*g.a.rs, i1-i0, g.k), g.b.matrix(j0*g.b.cs, g.k, j1-j0), out, g.add)
	if g.then != nil {
		(*g.then).After(g.row+i0, g.row+i1, j0, j1)
	}
}

// matrix is rows x cols elements of o from one on. Where it is a single row or
// column, the stride that is never taken can be anything: the library wants one
// that is as long as the other.
func (o *operand) matrix(at, rows, cols int) blas.Matrix {
	if o.cs == 1 {
		return blas.Matrix{Data: &o.data[at], Stride: max(o.rs, cols)}
	}
	return blas.Matrix{Data: &o.data[at], Stride: max(o.cs, rows), Trans: true}
}
