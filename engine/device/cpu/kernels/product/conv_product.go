package product

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// convRows is the fewest rows of a cell that are worth reading an image's windows
// for once more.
const convRows = 64

// convProduct is a convolution of planes as products: for each sample and group,
// out = w[g] * windows, of OG x H'W' elements over CG*KH*KW steps. The matrix of
// windows is read through [im2col].
type convProduct struct {
	planes
	grid        grid
	src, w, dst []float32
	then        *work.Epilogue
}

func newConvProduct(s planes) *convProduct {
	return &convProduct{
		planes: s,
		grid:   newGrid(&isaSizes[s.isa], s.count, s.og, s.im.oh*s.im.ow, s.cg*s.kk(), convRows, false),
	}
}

func (k *convProduct) scratch() int { return 0 }

func (k *convProduct) run(p work.Pool, src, w, dst, _ []float32, then *work.Epilogue) {
	k.src, k.w, k.dst, k.then = src, w, dst, then
	work.Do(p, k.grid.chunks(), k)
}

func (k *convProduct) Chunk(i int) {
	for t, end := k.grid.cellsOf(i); t < end; t++ {
		p, i0, i1, j0, j1 := k.grid.cell(t)
		im, pixels, steps := k.im, k.im.oh*k.im.ow, k.cg*k.kk()
		image := k.cg * im.h * im.w
		im.src = k.src[p*image:][:image]
		g := gemm{
			isa: k.isa,
			a:   operand{data: k.w[p%k.groups*k.og*steps:], rs: steps, cs: 1},
			im:  &im, c: k.dst[p*k.og*pixels:], ldc: pixels, k: steps,
			then: k.then, row: p * k.og,
		}
		g.do(i0, i1, j0, j1)
	}
}

// convExchange is dx as a [convProduct] with weights whose channels in and out are
// exchanged, [G,CG,OG,KH*KW]: they are written to scratch memory first.
type convExchange struct{ convProduct }

func newConvExchange(s *convShape) *convExchange {
	return &convExchange{*newConvProduct(s.backward())}
}

func (k *convExchange) scratch() int { return k.groups * k.cg * k.og * k.kk() }

func (k *convExchange) run(p work.Pool, dy, w, dx, scratch []float32, then *work.Epilogue) {
	kk, in, out := k.kk(), k.cg, k.og // in are w's channels out
	for i := range k.groups * in {
		for j := range out {
			copy(scratch[((i/in*out+j)*in+i%in)*kk:][:kk], w[(i*out+j)*kk:])
		}
	}
	k.convProduct.run(p, dy, scratch, dx, nil, then)
}

// convProductWGrad is dw as products: for each group, dw[g] is the sum over samples
// of dy * transposed windows, OG x CG*KH*KW elements over H'W' steps. The samples'
// sums are added in order: in place, or where there are too few cells to share, as
// [partials].
type convProductWGrad struct {
	*convShape
	im        im2col
	grid      grid
	partials  partials
	x, dy, dw []float32
}

func newConvProductWGrad(s *convShape) *convProductWGrad {
	k := &convProductWGrad{
		convShape: s, im: s.windowsOfX(),
		grid: newGrid(&isaSizes[s.on.ISA], s.groups, s.og(), s.cg()*s.kk(), s.n*s.py(), convRows, false),
	}
	k.im.transposed = true
	k.partials = newPartials(k.grid, s.n)
	if s.isPart() {
		k.partials.count = newConvProductWGrad(s.of).partials.count
	}
	return k
}

func (k *convProductWGrad) scratch() int { return int(k.partials.bytes() / 4) }

func (k *convProductWGrad) run(p work.Pool, x, dy, dw, scratch []float32, _ *work.Epilogue) {
	if k.n == 0 {
		clear(dw)
		return
	}
	k.x, k.dy, k.dw = x, dy, dw
	k.partials.bind(dw, scratch)
	work.Do(p, k.grid.chunks()*k.partials.count, k)
	k.partials.sum(p)
}

func (k *convProductWGrad) Chunk(i int) {
	part, i := i%k.partials.count, i/k.partials.count
	first, end, dw := 0, k.n, k.dw
	if k.partials.count > 1 {
		first, end, dw = part, part+1, k.partials.of(part)
	}
	ws := takeWorkspace()
	for t, last := k.grid.cellsOf(i); t < last; t++ {
		group, i0, i1, j0, j1 := k.grid.cell(t)
		for s := first; s < end; s++ {
			im := k.im
			g := k.product(dw, &im, group, s)
			g.add = s > first
			g.doIn(ws, i0, i1, j0, j1)
		}
	}
	ws.giveBack()
}

// product is the contribution of sample s, read through im, to a group of dw.
func (k *convProductWGrad) product(dw []float32, im *im2col, group, s int) gemm {
	at, steps := s*k.groups+group, k.cg()*k.kk()
	im.src = k.x[at*k.cg()*k.px():][:k.cg()*k.px()]
	return gemm{
		isa: k.on.ISA,
		a:   operand{data: k.dy[at*k.og()*k.py():][:k.og()*k.py()], rs: k.py(), cs: 1},
		im:  im, c: dw[group*k.og()*steps:], ldc: steps, k: k.py(),
	}
}
