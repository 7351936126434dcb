package product

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// partials are partial sums of products whose cells are too few to share among threads:
// sums over some blocks of K, or some samples. The first is in the output itself, the
// others are in scratch memory, and they are added in order. One thread does the same in
// place, so the bits are the same.
type partials struct {
	count      int // 1 where cells are summed as a whole
	elems      int // of the output
	rows, cols int // of the output
	out        []float32
	extra      []float32 // partial sums 1, 2, ...
	then       work.Epilogue
}

// maxPartialBytes is the most scratch memory that partial sums are worth.
const maxPartialBytes = 1 << 20

// newPartials is count partial sums of the products of g, where that helps.
func newPartials(g grid, count int) partials {
	p := partials{count: count, elems: g.count * g.m * g.n, rows: g.count * g.m, cols: g.n}
	if g.cells() >= work.EnoughChunks/2 || count < 2 || p.bytes() > maxPartialBytes {
		p.count = 1
	}
	return p
}

// bytes is the scratch memory that they need.
func (p *partials) bytes() int64 { return int64(max(0, p.count-1)) * int64(p.elems) * 4 }

func (p *partials) bind(out, scratch []float32) { p.out, p.extra = out, scratch }

// of is where partial sum i goes.
func (p *partials) of(i int) []float32 {
	if i == 0 {
		return p.out
	}
	return p.extra[(i-1)*p.elems:][:p.elems]
}

// sum adds the partial sums up, some rows or some columns of a row in a chunk.
func (p *partials) sum(pool work.Pool) {
	if p.count > 1 {
		work.Do(pool, work.CeilDiv(p.rows, work.RowGrain(p.cols))*work.CeilDiv(p.cols, work.Grain), p)
	}
}

func (p *partials) Chunk(i int) {
	across := work.CeilDiv(p.cols, work.Grain)
	i0, i1 := work.Interval(i/across, work.RowGrain(p.cols), p.rows)
	j0, j1 := work.Interval(i%across, work.Grain, p.cols)
	for row := i0; row < i1; row++ {
		lo, hi := row*p.cols+j0, row*p.cols+j1
		out := p.out[lo:hi]
		for part := 1; part < p.count; part++ {
			for j, v := range p.of(part)[lo:hi] {
				out[j] += v
			}
		}
	}
	if p.then != nil {
		p.then.After(i0, i1, j0, j1)
	}
}
