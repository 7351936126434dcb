package kernels

// parts are the sums that a product is put together from where its tiles alone
// are too few to share among threads: part 0 is in the output itself, the
// others are in scratch memory, and they are added in order. That is what one
// thread does in place, so the bits are the same.
type parts struct {
	count int // 1 if there are none
	elems int // of the output
	out   []float32
	more  []float32
}

// mostPartBytes is how much scratch memory parts are worth.
const mostPartBytes = 1 << 20

// newParts are count parts of the products of g, if that helps.
func newParts(g grid, count int) parts {
	p := parts{count: count, elems: g.count * g.m * g.n}
	if g.tiles() >= enoughChunks/2 || count < 2 || p.bytes() > mostPartBytes {
		p.count = 1
	}
	return p
}

// bytes is the scratch memory of the parts.
func (p *parts) bytes() int64 { return int64(max(0, p.count-1)) * int64(p.elems) * 4 }

func (p *parts) bind(out []float32, scratch []byte) {
	p.out, p.more = out, floats(scratch, int(p.bytes()/4))
}

// of is where part i goes.
func (p *parts) of(i int) []float32 {
	if i == 0 {
		return p.out
	}
	return p.more[(i-1)*p.elems:][:p.elems]
}

// sum adds the parts up.
func (p *parts) sum(pool Pool) {
	if p.count > 1 {
		do(pool, chunks(p.elems, grain), p)
	}
}

func (p *parts) Chunk(i int) {
	lo, hi := span(i, grain, p.elems)
	out := p.out[lo:hi]
	for part := 1; part < p.count; part++ {
		for j, v := range p.of(part)[lo:hi] {
			out[j] += v
		}
	}
}
