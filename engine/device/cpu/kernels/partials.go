package kernels

// parts are the sums that a product is put together from where its tiles alone
// are too few to share among threads: part 0 is in the output itself, the
// others are in scratch memory, and they are added in order. That is what one
// thread does in place, so the bits are the same.
type partials struct {
	count      int // 1 if there are none
	elems      int // of the output
	rows, cols int
	out        []float32
	extra      []float32
	then       Epilogue
}

// mostPartBytes is how much scratch memory parts are worth.
const maxPartialBytes = 1 << 20

// newParts are count parts of the products of g, if that helps.
func newPartials(g grid, count int) partials {
	p := partials{count: count, elems: g.count * g.m * g.n, rows: g.count * g.m, cols: g.n}
	if g.cells() >= enoughChunks/2 || count < 2 || p.bytes() > maxPartialBytes {
		p.count = 1
	}
	return p
}

// bytes is the scratch memory of the parts.
func (p *partials) bytes() int64 { return int64(max(0, p.count-1)) * int64(p.elems) * 4 }

func (p *partials) bind(out []float32, scratch []byte) {
	p.out, p.extra = out, floats(scratch, int(p.bytes()/4))
}

// of is where part i goes.
func (p *partials) of(i int) []float32 {
	if i == 0 {
		return p.out
	}
	return p.extra[(i-1)*p.elems:][:p.elems]
}

// sum adds the parts up, in pieces of some rows or of part of a row.
func (p *partials) sum(pool Pool) {
	if p.count > 1 {
		do(pool, ceilDiv(p.rows, rowGrain(p.cols))*ceilDiv(p.cols, grain), p)
	}
}

func (p *partials) Chunk(i int) {
	across := ceilDiv(p.cols, grain)
	i0, i1 := interval(i/across, rowGrain(p.cols), p.rows)
	j0, j1 := interval(i%across, grain, p.cols)
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
