package rows

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var countKernels = work.Table{
	"outcome(f32,i32)->i32":        newOutcome,
	"rank(f32,i32)->i32":           newRank,
	"binary_outcome(f32,f32)->i32": newBinaryOutcome,
	"tally(i32,i32)->i32":          newTally,
}

// classCounts gives a number for each row of logits and its target.
type classCounts struct {
	classRows
	of  func(x []float32, target int) int32
	out []int32
}

// newOutcome makes the kernel of cells in a confusion matrix.
func newOutcome(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := &classCounts{classRows: classRowsOf(on, n)}
	k.padded = n.Op.(ops.Outcome).Padded
	k.of = func(x []float32, target int) int32 {
		return int32(target*len(x) + k.predicted(x))
	}
	return k, nil
}

func newRank(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := &classCounts{classRows: classRowsOf(on, n), of: rank}
	k.padded = n.Op.(ops.Rank).Padded
	return k, nil
}

func (k *classCounts) ScratchBytes() int64 { return 0 }

func (k *classCounts) Run(p work.Pool, a *work.Args) error { return work.RunLoop(k, p, a) }

func (k *classCounts) Bind(a *work.Args) int {
	k.take(a)
	k.out = work.Ints(a.Out[0], k.r)
	return k.chunks()
}

func (k *classCounts) End(*work.Args) error { return k.err() }

func (k *classCounts) Chunk(i int) {
	lo, hi := work.Interval(i, work.RowGrain(k.c), k.r)
	for ; lo < hi; lo++ {
		if k.isPadding(lo) {
			k.out[lo] = -1
			continue
		}
		k.out[lo] = k.of(k.row(lo))
	}
}

// predicted is the index of the first largest element. NaN is larger than nothing, and
// nothing is larger than a first element that is NaN.
func (k *classRows) predicted(x []float32) int {
	if x[0] != x[0] {
		return 0
	}
	top := k.vec.Max(x)
	for i, v := range x {
		if v == top {
			return i
		}
	}
	return firstMax(x) // there is NaN
}

// firstMax is predicted without vectors.
func firstMax(x []float32) (best int) {
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// rank is the number of elements before the target's: larger ones, and equal ones with
// a smaller index. NaN is smaller than numbers.
func rank(x []float32, target int) (before int32) {
	own := x[target]
	for i, v := range x {
		switch {
		case v > own, own != own && v == v:
			before++
		case i < target && (v == own || own != own && v != v):
			before++
		}
	}
	return before
}

// binaryOutcome gives cells of the confusion matrices [2,2] of a sample's elements.
type binaryOutcome struct {
	n, per         int // elements of all samples and of one
	logits, target []float32
	out            []int32
}

func newBinaryOutcome(n *graph.Node, _ work.Target) (work.Kernel, error) {
	x := work.In(n, 0).Shape
	return &binaryOutcome{n: x.Elems(), per: x[1:].Elems()}, nil
}

func (k *binaryOutcome) ScratchBytes() int64 { return 0 }

func (k *binaryOutcome) Run(p work.Pool, a *work.Args) error {
	k.logits, k.target, k.out = work.Floats(a.In[0], k.n), work.Floats(a.In[1], k.n), work.Ints(a.Out[0], k.n)
	work.Do(p, work.CeilDiv(k.n, work.Grain), k)
	return nil
}

func (k *binaryOutcome) Chunk(i int) {
	lo, hi := work.Interval(i, work.Grain, k.n)
	for ; lo < hi; lo++ {
		cell := 4 * (lo % k.per)
		if k.target[lo] > 0.5 {
			cell += 2
		}
		if k.logits[lo] > 0 {
			cell++
		}
		k.out[lo] = int32(cell)
	}
}

// tally counts indexes, on one thread: counting takes little time compared with the work that gives them.
type tally struct {
	n, indexes int
	padded     bool // an index of -1 is padding
}

func newTally(n *graph.Node, _ work.Target) (work.Kernel, error) {
	return tally{work.In(n, 0).Elems(), work.In(n, 1).Elems(), n.Op.(ops.Tally).Padded}, nil
}

func (tally) ScratchBytes() int64 { return 0 }

func (k tally) Run(_ work.Pool, a *work.Args) error {
	counts, indexes := work.Ints(a.Out[0], k.n), work.Ints(a.In[1], k.indexes)
	if !work.SameMemory(a.In[0], a.Out[0]) {
		copy(counts, work.Ints(a.In[0], k.n))
	}
	for _, x := range indexes {
		if x == -1 && k.padded {
			continue
		}
		if x < 0 || int(x) >= k.n {
			return k.failure(indexes)
		}
		counts[x]++
	}
	return nil
}

// failure is the error about the first index that is none of the counts.
func (k tally) failure(indexes []int32) error {
	if k.padded {
		return ops.CheckPaddedCounted(indexes, k.n)
	}
	return ops.CheckCounted(indexes, k.n)
}
