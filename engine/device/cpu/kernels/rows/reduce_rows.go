package rows

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// rowFold folds the rows of each of some matrices, batches of rows x n elements, in
// float64: the gradients of biases, and reductions over an axis that is not the last. A
// chunk folds some columns of some rows, or all those of some small matrices, in
// scratch memory. Where rows are shared, partial results are combined in order.
type rowFold struct {
	vec              *vec.Funcs
	f                fold
	scale            float64
	batches, rows, n int
	apart, stride    int  // elements from matrix to matrix, and from row to row
	width, height    int  // columns and rows of a chunk
	group            int  // matrices of a chunk
	wide             bool // each row is folded by itself
	y, x             []float32
	acc              []float64 // [partials, batches, n]
}

const (
	foldWidth   = 512     // most columns of a chunk
	foldBlock   = 1 << 13 // most elements of rows that are gone through together, a few columns at a time
	foldWork    = 8192    // fewest elements of a chunk where rows are shared
	narrow      = 16      // columns below which several rows are folded as one
	foldColumns = 256     // most columns of several narrow rows
)

// newRowFold takes over from a reduction that [reduce.columns] describes, if it folds
// one axis and its outputs are neighbouring columns of each of some matrices.
func newRowFold(r *reduce) (k *rowFold, ok bool) {
	last := len(r.outer.Dims) - 1
	if r.f == foldSquares || last > 1 || len(r.folded.Dims) > 1 {
		return nil, false
	}
	k = &rowFold{vec: r.vec, f: r.f, scale: r.scale, batches: 1, rows: r.total, n: r.outer.Dims[last]}
	if last > 0 {
		k.batches, k.apart = r.outer.Dims[0], r.outer.Strides[0]
	}
	_, k.stride = r.folded.Inner()
	k.width = min(k.n, foldWidth)
	k.wide = k.width >= narrow
	k.group = max(1, min(k.batches, foldWork/max(1, k.rows*k.n)))
	parts := max(1, min(work.EnoughChunks/k.across(), k.rows*k.width*k.group/foldWork))
	k.height = max(1, work.CeilDiv(k.rows, parts))
	return k, true
}

// partials is the ranges that rows are cut into, and across the groups that the columns
// of all matrices are cut into.
func (k *rowFold) partials() int { return max(1, work.CeilDiv(k.rows, k.height)) }
func (k *rowFold) across() int   { return work.CeilDiv(k.batches, k.group) * work.CeilDiv(k.n, k.width) }

func (k *rowFold) ScratchBytes() int64 { return int64(k.partials()) * int64(k.batches*k.n) * 8 }

func (k *rowFold) Run(p work.Pool, a *work.Args) error {
	n := k.batches * k.n
	k.y, k.x, k.acc = work.Floats(a.Out[0], n), work.Floats(a.In[0], len(a.In[0])/4), work.Doubles(a.Scratch, k.partials()*n)
	work.Do(p, k.across()*k.partials(), k)
	if k.partials() > 1 {
		work.Do(p, k.across(), (*rowFoldPartials)(k))
	}
	return nil
}

// piece is matrices b0..b1 and columns lo..hi of group i.
func (k *rowFold) piece(i int) (b0, b1, lo, hi int) {
	across := work.CeilDiv(k.n, k.width)
	b0, b1 = work.Interval(i/across, k.group, k.batches)
	lo, hi = work.Interval(i%across, k.width, k.n)
	return b0, b1, lo, hi
}

// of is a partial result for columns of matrix b.
func (k *rowFold) of(part, b, lo, hi int) []float64 {
	return k.acc[(part*k.batches+b)*k.n:][lo:hi]
}

func (k *rowFold) Chunk(i int) {
	part := i / k.across()
	b0, b1, lo, hi := k.piece(i % k.across())
	r0, r1 := work.Interval(part, k.height, k.rows)
	for b := b0; b < b1; b++ {
		acc := k.of(part, b, lo, hi)
		for j := range acc {
			acc[j] = k.f.start()
		}
		if r1 > r0 {
			k.fold(acc, k.x[b*k.apart+r0*k.stride+lo:], r1-r0)
		}
		if k.partials() == 1 {
			k.write(b, lo, acc)
		}
	}
}

// fold folds rows of x.
func (k *rowFold) fold(acc []float64, x []float32, rows int) {
	if !k.wide && k.stride == len(acc) {
		done := k.foldNarrow(acc, x, rows)
		x, rows = x[done*k.stride:], rows-done
	}
	block := max(1, foldBlock/len(acc))
	for r := 0; r < rows; r += block {
		k.f.across(k.vec, acc, x[r*k.stride:], k.stride, min(block, rows-r))
	}
}

// foldNarrow folds several rows as one wider row, so that vectors are full. It returns
// the number of rows that it folded.
func (k *rowFold) foldNarrow(acc []float64, x []float32, rows int) int {
	n, together := len(acc), 1
	for n*together%narrow != 0 || n*together < foldColumns/4 {
		together *= 2
	}
	if rows < 2*together {
		return 0
	}
	r := work.TakeRegisters()
	wide := r.Doubles()[:n*together]
	for j := range wide {
		wide[j] = k.f.start()
	}
	k.f.across(k.vec, wide, x, n*together, rows/together)
	for j, v := range wide {
		acc[j%n] = k.f.join(acc[j%n], v)
	}
	r.GiveBack()
	return rows / together * together
}

// write rounds the results of columns of matrix b from lo on.
func (k *rowFold) write(b, lo int, acc []float64) {
	y := k.y[b*k.n+lo:][:len(acc)]
	for j, v := range acc {
		y[j] = float32(v * k.scale)
	}
}

// rowFoldPartials combines the partial results.
type rowFoldPartials rowFold

func (k *rowFoldPartials) Chunk(i int) {
	f := (*rowFold)(k)
	b0, b1, lo, hi := f.piece(i)
	for b := b0; b < b1; b++ {
		acc := f.of(0, b, lo, hi)
		for part := 1; part < f.partials(); part++ {
			for j, v := range f.of(part, b, lo, hi) {
				acc[j] = f.f.join(acc[j], v)
			}
		}
		f.write(b, lo, acc)
	}
}
