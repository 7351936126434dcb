package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// convPointWGrad is dw of windows of one pixel: for each group, the sum over samples of
// dy * transposed x, of OG x CG elements. Rows of dy are read in place, and x is packed.
//
// It has the bits of [convDirectWGrad], which sums the pixels of a band in one chain, adds
// up the bands of a partial sum, and adds up the partial sums. That way writes each partial
// sum to memory: for small images of many channels, dw is larger than both factors. Here a
// tile of dw takes up as many bands as are packed at once before it leaves the first cache.
// Partial sums of more pixels than are packed at once are kept in scratch memory ("apart").
type convPointWGrad struct {
	*convShape
	vec       *vec.Funcs
	thin      thinned
	sizes     sizes
	grid      grid
	threads   int  // that grid is cut for
	cut       bool // partial sums have more pixels than are packed at once
	apart     int  // partial sums in scratch memory and in dw; 1 where dw takes up all
	runs      [][]pointRun
	x, dy, dw []float32
	extra     []float32 // partial sums 1, 2, ...
}

// pointRun is pixels that are packed at once.
type pointRun struct {
	steps  int
	pieces []pointPiece
	blocks []int // for gemmBlocks
}

// pointPiece is n pixels of a sample.
type pointPiece struct{ sample, from, n int }

// What becomes of a block's sums in gemmBlocks.
const (
	blockAddApart = 1 << iota
	blockKeep
	blockAdd
)

const (
	// pointSteps is the most pixels that are packed at once: a band always fits.
	pointSteps = maxBandPixels
	// pointCols is the most channels in that are packed at once: with so many pixels, they
	// fill a block of B of a workspace.
	pointCols = maxCols * blockK / (pointSteps + 2*depthStep) / 32 * 32
	// minPointChannels is the fewest channels that fill a vector.
	minPointChannels = 8
)

// newConvPointWGrad does what direct does, or returns nil where that would not pay.
func newConvPointWGrad(s *convShape, direct *convDirectWGrad) *convPointWGrad {
	if s.kk() != 1 || s.pad != 0 || min(s.cg(), s.of.og()) < minPointChannels {
		return nil
	}
	d := &convPointWGrad{convShape: s, vec: s.on.ISA.Vec(), thin: thinnedX(s), apart: 1}
	if d.cut = direct.samplesPerPartial*s.py() > pointSteps; d.cut {
		d.apart = direct.partials
	}
	d.plan(direct)
	d.sizes = isaSizes[s.on.ISA]
	d.sizes.cols = pointCols
	d.grid = grid{count: d.apart * s.groups, m: s.og(), n: s.cg()}
	return d
}

// plan finds the blocks of each partial sum that is apart, or of dw.
func (d *convPointWGrad) plan(direct *convDirectWGrad) {
	var runs []pointRun
	for part := range direct.partials {
		var bands []pointPiece
		for s := part * direct.samplesPerPartial; s < min(d.n, (part+1)*direct.samplesPerPartial); s++ {
			for r := 0; r < d.oh; r += direct.bandRows {
				bands = append(bands, pointPiece{s, r * d.ow, min(direct.bandRows, d.oh-r) * d.ow})
			}
		}
		if d.cut || part == 0 {
			runs = nil
		}
		runs = d.addBands(runs, bands, part > 0)
		if d.cut || part == direct.partials-1 {
			d.runs = append(d.runs, runs)
		}
	}
}

// addBands adds the bands of a partial sum to runs. more says that there are partial sums
// before it.
func (d *convPointWGrad) addBands(runs []pointRun, bands []pointPiece, more bool) []pointRun {
	pixels := 0
	for _, b := range bands {
		pixels += b.n
	}
	for i, b := range bands {
		add := 0
		if d.cut && i > 0 || !d.cut && i == len(bands)-1 && more {
			add = blockAdd
		}
		need := b.n
		if !d.cut {
			if i > 0 {
				add |= blockAddApart
			}
			if i < len(bands)-1 {
				add |= blockKeep
			}
			if need = 0; i == 0 { // a partial sum is not cut
				need = pixels
			}
		}
		if last := len(runs) - 1; last < 0 || runs[last].steps+need > pointSteps {
			runs = append(runs, pointRun{})
		}
		runs[len(runs)-1].append(b, d.sample()*b.sample+b.from, add)
	}
	return runs
}

// sample is the elements of a sample of dy.
func (d *convPointWGrad) sample() int { return d.o * d.py() }

// append adds a band, whose part of dy starts at element at, to a run.
func (r *pointRun) append(b pointPiece, at, then int) {
	n := len(r.blocks)
	if n > 0 {
		n-- // the end of the list
	}
	r.blocks = append(r.blocks[:n], b.n, at, then, 0)
	r.steps += b.n
	if last := len(r.pieces) - 1; last >= 0 && r.pieces[last].sample == b.sample {
		r.pieces[last].n += b.n
		return
	}
	r.pieces = append(r.pieces, b)
}

func (d *convPointWGrad) scratch() int { return d.thin.elems() + (d.apart-1)*d.lenW() }

func (d *convPointWGrad) run(p work.Pool, x, dy, dw, scratch []float32, _ *work.Epilogue) {
	d.x = d.thin.of(p, x, scratch)
	d.dy, d.dw, d.extra = dy, dw, scratch[d.thin.elems():]
	if t := p.Threads(); d.threads != t {
		d.grid, d.threads = d.grid.forThreads(&d.sizes, t, d.n*d.py()/d.apart, false, true), t
	}
	work.Do(p, d.grid.chunks(), d)
	if d.apart > 1 {
		work.Do(p, work.CeilDiv(d.lenW(), work.Grain), (*convPointWGradAdd)(d))
	}
}

// convPointWGradAdd adds up the partial sums that are apart.
type convPointWGradAdd convPointWGrad

func (d *convPointWGradAdd) Chunk(i int) {
	lo, hi := work.Interval(i, work.Grain, len(d.dw))
	sum := d.dw[lo:hi]
	for part := 1; part < d.apart; part++ {
		d.vec.Add(sum, sum, d.extra[(part-1)*len(d.dw):][lo:hi])
	}
}

// Chunk computes some cells of dw, or of partial sums.
func (d *convPointWGrad) Chunk(i int) {
	ws := takeWorkspace()
	for t, end := d.grid.cellsOf(i); t < end; t++ {
		p, i0, i1, j0, j1 := d.grid.cell(t)
		part, group := p/d.groups, p%d.groups
		out := d.dw
		if part > 0 {
			out = d.extra[(part-1)*len(d.dw):][:len(d.dw)]
		}
		c := out[group*d.og()*d.cg():][:d.og()*d.cg()]
		for r := range d.runs[part] {
			run := &d.runs[part][r]
			step := d.pack(ws, run, group, j0, j1)
			d.multiply(ws, run, c, group, i0, i1, j0, j1, step)
		}
	}
	ws.giveBack()
}

// pack writes a run's pixels of channels j0..j1 to panels, and returns the elements from one
// to the next: there is room for what transpose writes on.
func (d *convPointWGrad) pack(ws *workspace, run *pointRun, group, j0, j1 int) (step int) {
	s, py := &d.sizes, d.py()
	step = (work.CeilDiv(run.steps, depthStep) + 1) * depthStep * s.nr
	for j := j0; j < j1; j += s.lanes {
		dst := ws.b[(j-j0)/s.nr*step+(j-j0)%s.nr:]
		for _, q := range run.pieces {
			src := d.x[((q.sample*d.groups+group)*d.cg()+j)*py+q.from:]
			if j+s.lanes <= j1 {
				_ = src[(s.lanes-1)*py+q.n-1]
				transpose(d.on.ISA, &dst[0], s.nr, &src[0], py, q.n)
			} else {
				for l := range j1 - j {
					at := l
					for _, v := range src[l*py:][:q.n] {
						dst[at] = v
						at += s.nr
					}
				}
			}
			dst = dst[q.n*s.nr:]
		}
	}
	return step
}

// multiply adds a run's products to rows i0..i1 and columns j0..j1 of c.
func (d *convPointWGrad) multiply(ws *workspace, run *pointRun, c []float32, group, i0, i1, j0, j1, step int) {
	cg, py, groups := d.cg(), d.py(), work.CeilDiv(i1-i0, d.sizes.mr)
	dy := d.dy[group*d.og()*py:]
	last := run.pieces[len(run.pieces)-1]
	_, _ = dy[last.sample*d.sample()+(i1-1)*py+last.from+last.n-1], c[(i1-1)*cg+j1-1]
	for p := range groups {
		i, end := i0+(i1-i0)*p/groups, i0+(i1-i0)*(p+1)/groups
		gemmBlocks(d.on.ISA, &c[i*cg+j0], cg, &dy[i*py], py, &ws.b[0], step, end-i, j1-j0, &run.blocks[0], &ws.rows[0])
	}
}
