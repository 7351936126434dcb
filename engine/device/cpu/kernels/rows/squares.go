package rows

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
)

var squareKernels = work.Table{
	"square_parts(f32)->i32":    newSquareParts,
	"square_total(i32...)->f32": newSquareTotal,
}

// squareParts writes the partial results of a reduce that folds squares.
type squareParts struct {
	vec  *vec.Funcs
	n    int // elements of x
	x    []float32
	sums []int32 // [sums, 2]
}

func newSquareParts(n *graph.Node, on work.Target) (work.Kernel, error) {
	return &squareParts{vec: on.ISA.Vec(), n: work.In(n, 0).Elems()}, nil
}

func (k *squareParts) ScratchBytes() int64 { return 0 }

func (k *squareParts) Run(p work.Pool, a *work.Args) error {
	parts := work.CeilDiv(k.n, partialElems)
	k.x, k.sums = work.Floats(a.In[0], k.n), work.Ints(a.Out[0], 2*parts)
	work.Do(p, parts, k)
	return nil
}

func (k *squareParts) Chunk(i int) {
	lo, hi := work.Interval(i, partialElems, k.n)
	bits := math.Float64bits(k.vec.SquaresFrom(k.x[lo:hi], 0))
	k.sums[2*i], k.sums[2*i+1] = int32(bits), int32(bits>>32)
}

// squareTotal adds partial results in their order.
type squareTotal struct {
	sums []int // per input: its number of sums
}

func newSquareTotal(n *graph.Node, _ work.Target) (work.Kernel, error) {
	k := &squareTotal{}
	for i := range n.In {
		k.sums = append(k.sums, work.In(n, i).Shape[0])
	}
	return k, nil
}

func (k *squareTotal) ScratchBytes() int64 { return 0 }

func (k *squareTotal) Run(_ work.Pool, a *work.Args) error {
	acc := foldSquares.start()
	for i, n := range k.sums {
		halves := work.Ints(a.In[i], 2*n)
		for j := range n {
			acc = foldSquares.join(acc, math.Float64frombits(uint64(uint32(halves[2*j]))|uint64(uint32(halves[2*j+1]))<<32))
		}
	}
	work.Floats(a.Out[0], 1)[0] = float32(acc)
	return nil
}
