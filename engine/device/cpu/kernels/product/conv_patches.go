package product

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// convPatches is y where windows lie side by side: the stride is the side of the
// window, and there is no padding. The windows are written down first, as rows of
// CG*KH*KW elements: that only puts x in another order. Then y is an ordinary product
// with them.
type convPatches struct {
	*convShape
	format  format
	grid    grid
	x, w, y []float32
	patches []float32 // [N, G, H'W', CG*KH*KW]
	then    *work.Epilogue
}

// newConvPatches returns nil where windows do not lie side by side.
func newConvPatches(s *convShape) *convPatches {
	if s.pad != 0 || s.kh != s.stride || s.kw != s.stride || s.stride == 1 || s.apart > 1 || s.cg() == 0 {
		return nil
	}
	d := &convPatches{convShape: s, format: formatOf(s.on, s.bf16, s.og(), s.py(), s.cg()*s.kk())}
	d.grid = newGrid(sizesOf(s.on.ISA, d.format), s.n*s.groups, s.og(), s.py(), s.cg()*s.kk(), convRows, false)
	return d
}

func (d *convPatches) scratch() int { return d.n * d.py() * d.c * d.kk() }

func (d *convPatches) run(p work.Pool, x, w, y, scratch []float32, then *work.Epilogue) {
	d.x, d.w, d.y, d.patches, d.then = x, w, y, scratch, then
	work.Do(p, d.n*d.groups*d.oh, (*patchCopy)(d))
	work.Do(p, d.grid.chunks(), d)
}

// rounds implements [rounder].
func (d *convPatches) rounds() bool { return d.bf16 }

// patchCopy writes the patches, a row of windows at a time.
type patchCopy convPatches

func (d *patchCopy) Chunk(i int) {
	cg := d.cg()
	p, r, step := i/d.oh, i%d.oh, cg*d.kk()
	rows := d.patches[(p*d.py()+r*d.ow)*step:][:d.ow*step]
	for c := range cg {
		for kh := range d.kh {
			at := c*d.kk() + kh*d.kw
			row := d.x[(p*cg+c)*d.px()+(r*d.stride+kh)*d.convShape.w:][:d.ow*d.stride]
			if d.kw == 4 {
				for ; len(row) >= 4; at += step {
					*(*[4]float32)(rows[at:]) = [4]float32(row)
					row = row[4:]
				}
				continue
			}
			for ; len(row) > 0; at += step {
				copy(rows[at:], row[:d.kw])
				row = row[d.kw:]
			}
		}
	}
}

// Chunk multiplies.
func (d *convPatches) Chunk(i int) {
	k := d.cg() * d.kk()
	for t, end := d.grid.cellsOf(i); t < end; t++ {
		p, i0, i1, j0, j1 := d.grid.cell(t)
		g := gemm{
			isa: d.on.ISA, format: d.format, k: k,
			a: operand{data: d.w[p%d.groups*d.og()*k:][:d.og()*k], rs: k, cs: 1},
			b: operand{data: d.patches[p*d.py()*k:][:d.py()*k], rs: 1, cs: k},
			c: d.y[p*d.og()*d.py():], ldc: d.py(), then: d.then, row: p * d.og(),
		}
		g.do(i0, i1, j0, j1)
	}
}
