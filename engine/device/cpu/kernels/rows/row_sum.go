package rows

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// RowSum sums rows that another kernel writes, each as soon as it is written, and adds
// the sums up as the node's own kernel does: row i goes to output i mod the number of
// outputs, in partial sums of so many rows each.
type RowSum struct {
	vec        *vec.Funcs
	outputs    int
	perPartial int       // rows of a partial sum of an output
	rows       []float64 // their sums, while it runs
}

// RowSumOf is the sum of rows that k computes. It reports whether k is one.
func RowSumOf(k work.Kernel) (*RowSum, bool) {
	r, ok := k.(*reduce)
	if !ok {
		return nil, false
	}
	inner, _ := r.folded.Inner()
	s := &RowSum{vec: r.vec, outputs: r.n, perPartial: r.total / inner}
	if r.partials > 1 {
		s.perPartial = r.perPartial / inner
	}
	return s, true
}

// Bind takes memory for a number per row.
func (s *RowSum) Bind(rows []float64) { s.rows = rows }

// Take sums rows i0..i1 of x.
func (s *RowSum) Take(x []float32, cols, i0, i1 int) {
	for i := i0; i < i1; i++ {
		s.rows[i] = s.vec.Sum(x[i*cols:][:cols])
	}
}

// Finish adds the sums up.
func (s *RowSum) Finish(y []float32) {
	each := len(s.rows) / s.outputs
	for o := 0; o < s.outputs; o++ {
		sum := 0.0
		for lo := 0; lo < each; lo += s.perPartial {
			part := 0.0
			for i := lo; i < min(lo+s.perPartial, each); i++ {
				part += s.rows[i*s.outputs+o]
			}
			sum += part
		}
		y[o] = float32(sum)
	}
}
