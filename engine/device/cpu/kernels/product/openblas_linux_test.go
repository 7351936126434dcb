package product

import (
	"math"
	"slices"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// sgemm is OpenBLAS's product of float32 matrices, in Fortran's words: matrices lie by columns,
// and every argument is an address.
type sgemm func(transA, transB *byte, m, n, k *int32, alpha, a *float32, lda *int32, b *float32, ldb *int32, beta, c *float32, ldc *int32)

// openBLAS loads the library, or skips the test where it is not installed (Debian's package is
// libopenblas0).
func openBLAS(t *testing.T) (multiply sgemm) {
	t.Helper()
	var missing error
	for _, file := range []string{"libopenblas.so.0", "libopenblas.so", "libopenblasp.so.0"} {
		handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			purego.RegisterLibFunc(&multiply, handle, "sgemm_")
			return multiply
		}
		missing = err
	}
	t.Skip("OpenBLAS is not installed: ", missing)
	return nil
}

// of multiplies the operands of op, of m x n results and k steps.
func (multiply sgemm) of(op ops.MatMul, a, b []float32, m, n, k int) []float32 {
	// By columns, the same memory holds the transposes, and the transpose of A*B is B's
	// transpose times A's.
	letter := map[bool]byte{false: 'N', true: 'T'}
	transA, transB := letter[op.TransA], letter[op.TransB]
	lda, ldb, out := int32(k), int32(n), make([]float32, m*n)
	if op.TransA {
		lda = int32(m)
	}
	if op.TransB {
		ldb = int32(k)
	}
	rows, cols, steps, one, zero := int32(m), int32(n), int32(k), float32(1), float32(0)
	multiply(&transB, &transA, &cols, &rows, &steps, &one, &b[0], &ldb, &a[0], &lda, &zero, &out[0], &cols)
	return out
}

// TestLargeProductsMeetOpenBLAS compares products that would take the reference too long, in all
// layouts and with all instruction sets.
func TestLargeProductsMeetOpenBLAS(t *testing.T) {
	blas := openBLAS(t)
	for _, s := range [][3]int{{300, 700, 900}, {129, 65, 2000}, {512, 1030, 384}, {31, 3000, 70}}[:testall.Or(2, 4)] {
		for _, op := range []ops.MatMul{{}, {TransA: true}, {TransB: true}, {TransA: true, TransB: true}} {
			m, n, k := s[0], s[1], s[2]
			a, b := []int{m, k}, []int{k, n}
			if op.TransA {
				slices.Reverse(a)
			}
			if op.TransB {
				slices.Reverse(b)
			}
			in := []ref.Array{kernelstest.Noise(a...), kernelstest.Noise(b...)}
			rig.EachISA(t, func(t *testing.T, r kernelstest.Rig) {
				l := r.Run(t, kernelstest.Sample{Op: op, In: in}, nil, kernelstest.Serial{})
				got := shape.View[float32](l.Args.Out[0])
				want := blas.of(op, shape.View[float32](l.Args.In[0]), shape.View[float32](l.Args.In[1]), m, n, k)
				for i, w := range want {
					if math.Abs(float64(got[i]-w)) > 1e-4 {
						t.Fatalf("%v of %v: element %d is %v, OpenBLAS's %v", op, s, i, got[i], w)
					}
				}
			})
		}
	}
}
