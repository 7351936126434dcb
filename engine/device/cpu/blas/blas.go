package blas

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// ErrNotFound is the cause of [Open]'s failures.
var ErrNotFound = errors.New("OpenBLAS was not found")

// Library is OpenBLAS, loaded. It is for any number of goroutines.
type Library struct {
	name  string
	sgemm uintptr
}

// Name says which file was loaded, and which kernels the library chose for this
// CPU: "libopenblas.so.0 (SkylakeX)".
func (l *Library) Name() string { return l.name }

// Open loads OpenBLAS; later calls return the same. It fails with [ErrNotFound] and the
// names that were tried.
func Open() (*Library, error) { return open() }

var open = sync.OnceValues(func() (*Library, error) {
	name, sgemm, err := load()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return &Library{name: name, sgemm: sgemm}, nil
})

// Matrix is a matrix in row-major order, or in column-major order if Trans is
// set. Stride is from one row, or column, to the next, and not below its length.
// Data must not be on a goroutine's stack, which can move.
type Matrix struct {
	Data   *float32
	Stride int
	Trans  bool
}

// Call is the memory of a call's arguments, which the library takes by address.
// It must not be on a stack either, and serves one goroutine at a time.
type Call struct {
	m, n, k, lda, ldb, ldc int32
	alpha, beta            float32
	transA, transB         byte
	addresses              [13]uintptr
}

// Multiply computes the m x n elements of C = A*B, or C += A*B, over k steps;
// none of the three may be 0. C is in row-major order.
func (c *Call) Multiply(l *Library, m, n, k int, a, b, out Matrix, add bool) {
	// Fortran's order is by columns: in its eyes the same memory holds the
	// transposes, of which the product is B*A.
	*c = Call{m: int32(n), n: int32(m), k: int32(k), lda: b.stride(), ldb: a.stride(), ldc: out.stride(),
		alpha: 1, transA: b.letter(), transB: a.letter()}
	if add {
		c.beta = 1
	}
	at := func(p unsafe.Pointer) uintptr { return uintptr(p) }
	c.addresses = [...]uintptr{at(unsafe.Pointer(&c.transA)), at(unsafe.Pointer(&c.transB)),
		at(unsafe.Pointer(&c.m)), at(unsafe.Pointer(&c.n)), at(unsafe.Pointer(&c.k)), at(unsafe.Pointer(&c.alpha)),
		at(unsafe.Pointer(b.Data)), at(unsafe.Pointer(&c.lda)), at(unsafe.Pointer(a.Data)), at(unsafe.Pointer(&c.ldb)),
		at(unsafe.Pointer(&c.beta)), at(unsafe.Pointer(out.Data)), at(unsafe.Pointer(&c.ldc))}
	call(l.sgemm, c.addresses[:])
	runtime.KeepAlive([...]*float32{a.Data, b.Data, out.Data})
	runtime.KeepAlive(c)
}

func (m Matrix) stride() int32 { return int32(m.Stride) }

func (m Matrix) letter() byte {
	if m.Trans {
		return 'T'
	}
	return 'N'
}
