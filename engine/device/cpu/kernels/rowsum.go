package kernels

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

// rowSum sums rows that a cluster writes, each as soon as it is written, and
// adds the sums up as the node's own kernel does: row i goes to output i mod n,
// in parts of so many rows each.
type rowSum struct {
	vec        *vec.Funcs
	x, y       int // in the cluster's memory
	n          int // outputs
	perPartial int // rows of an output in a part
	rows       []float64
}

// newRowSum is a node of a cluster's Sums.
func newRowSum(c *fuse.Cluster, n *graph.Node) (*rowSum, error) {
	k, err := New(n)
	if err != nil {
		return nil, err
	}
	r, ok := k.(*reduce)
	if !ok {
		return nil, fmt.Errorf("BUG: %v does not sum rows", n)
	}
	run, _ := r.folded.inner()
	s := &rowSum{vec: r.vec, n: r.n, perPartial: r.total / run}
	if r.partials > 1 {
		s.perPartial = r.perPartial / run
	}
	s.x = len(c.In) + slices.Index(c.Out, c.Reads[slices.Index(c.Nodes, n)][0])
	s.y = len(c.In) + slices.Index(c.Out, n.Out[0])
	return s, nil
}

// take sums rows i0..i1.
func (s *rowSum) take(memory [][]float32, cols, i0, i1 int) {
	x := memory[s.x]
	for i := i0; i < i1; i++ {
		s.rows[i] = s.vec.Sum(x[i*cols:][:cols])
	}
}

// finish adds up.
func (s *rowSum) finish(memory [][]float32) {
	each := len(s.rows) / s.n
	for o, y := 0, memory[s.y]; o < s.n; o++ {
		sum := 0.0
		for lo := 0; lo < each; lo += s.perPartial {
			part := 0.0
			for i := lo; i < min(lo+s.perPartial, each); i++ {
				part += s.rows[i*s.n+o]
			}
			sum += part
		}
		y[o] = float32(sum)
	}
}
