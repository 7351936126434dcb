package kernels

import "github.com/berth-ml/berth/engine/device/cpu/kernels/vec"

// columnSum is y[j] = scale * sum of x[i, j] over rows i, in float64: the
// gradients of biases. A chunk sums some columns of some rows in scratch
// memory; where rows are shared, their sums are added in order.
type columnSum struct {
	vec             *vec.Funcs
	scale           float64
	rows, n, stride int
	width, height   int // columns and rows of a chunk
	y, x            []float32
	sums            []float64 // [parts of the rows, n]
}

const (
	columnWidth = 512  // most columns of a chunk
	columnBlock = 16   // rows that are gone through together, a few columns at a time
	columnWork  = 8192 // least elements of a chunk where rows are shared
)

// newColumnSum takes over from a reduction of one run of columns over one axis.
func newColumnSum(r *reduce) *columnSum {
	k := &columnSum{vec: r.vec, scale: r.scale, rows: r.total, n: r.n, width: min(r.n, columnWidth)}
	_, k.stride = r.folded.run()
	parts := max(1, min(enoughChunks/chunks(k.n, k.width), k.rows*k.width/columnWork))
	k.height = max(1, chunks(k.rows, parts))
	return k
}

// parts is into how many the rows are cut.
func (k *columnSum) parts() int { return max(1, chunks(k.rows, k.height)) }

func (k *columnSum) ScratchBytes() int64 { return int64(k.parts()) * int64(k.n) * 8 }

func (k *columnSum) Run(p Pool, a *Args) error {
	across := chunks(k.n, k.width)
	k.y, k.x, k.sums = floats(a.Out[0], k.n), floats(a.In[0], len(a.In[0])/4), doubles(a.Scratch, k.parts()*k.n)
	do(p, across*k.parts(), k)
	if k.parts() > 1 {
		do(p, across, (*columnParts)(k))
	}
	return nil
}

func (k *columnSum) Chunk(i int) {
	across := chunks(k.n, k.width)
	part := i / across
	lo, hi := span(i%across, k.width, k.n)
	sums := k.sums[part*k.n+lo : part*k.n+hi]
	clear(sums)
	r0, r1 := span(part, k.height, k.rows)
	for r := r0; r < r1; r += columnBlock {
		k.vec.SumRows(sums, k.x[r*k.stride+lo:], k.stride, min(columnBlock, r1-r))
	}
	if k.parts() == 1 {
		k.write(lo, sums)
	}
}

// write rounds sums of columns from lo on.
func (k *columnSum) write(lo int, sums []float64) {
	y := k.y[lo:][:len(sums)]
	for j, v := range sums {
		y[j] = float32(v * k.scale)
	}
}

// columnParts adds up the parts of the rows.
type columnParts columnSum

func (k *columnParts) Chunk(i int) {
	lo, hi := span(i, k.width, k.n)
	sums := k.sums[lo:hi]
	for at := k.n; at < len(k.sums); at += k.n {
		more := k.sums[at+lo:][:len(sums)]
		for j := range sums {
			sums[j] += more[j]
		}
	}
	(*columnSum)(k).write(lo, sums)
}
