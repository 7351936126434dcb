package product

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// planesOfB makes one product of the images of all samples: columns of B and C are the
// pixels of the first sample, of the second, and so on. A panel of B may have the end of one
// image and the beginning of the next: only the last panel of all has columns that are idle.
type planesOfB struct {
	src            []float32 // B: row k of a sample is its channel k
	plane          int       // pixels of an image
	apartB, apartC int       // elements from a sample to the next
	rows           int       // rows of the whole output from a sample to the next
}

// each calls do for the parts of columns j0..j1 that are in one sample: columns j..end, from
// pixel p on.
func (m *planesOfB) each(j0, j1 int, do func(sample, p, j, end int)) {
	for j := j0; j < j1; {
		sample, p := j/m.plane, j%m.plane
		end := min(j+m.plane-p, j1)
		do(sample, p, j, end)
		j = end
	}
}

// packPlanes is packB.
func (g *gemm) packPlanes(ws *workspace, b panels, k0, j0, j1 int) {
	g.spreadPlanes(ws, b, k0, j0, j1)
	nr := g.sizes().nr
	for j := j0; g.format == formatPairs && j < j1; j += nr {
		panel := &b.data[(j-j0)/nr*b.step]
		spreadPairs(panel, 0, panel, nr, nr, b.k)
	}
}

// spreadPlanes is packPlanes without rounding.
func (g *gemm) spreadPlanes(ws *workspace, b panels, k0, j0, j1 int) {
	m, nr := g.planes, g.sizes().nr
	if m.plane%nr == 0 { // as is j0, in a sample
		m.each(j0, j1, func(sample, p, j, end int) {
			src := m.src[sample*m.apartB+k0*m.plane+p:]
			_ = src[(b.k-1)*m.plane+end-j-1]
			spread(g.isa, &b.data[(j-j0)/nr*b.step], b.step, &src[0], m.plane, end-j, b.k)
		})
		return
	}
	n := j1 - j0
	most := len(ws.rows) / n
	for k := 0; k < b.k; k += most {
		rows := min(most, b.k-k)
		m.each(j0, j1, func(sample, p, j, end int) {
			for r := range rows {
				copy(ws.rows[r*n+j-j0:][:end-j], m.src[sample*m.apartB+(k0+k+r)*m.plane+p:])
			}
		})
		spread(g.isa, &b.data[k*nr], b.step, &ws.rows[0], n, n, rows)
	}
}

// multiplyPlanes multiplies rows i..end, of i0..i1, with panels of B for columns j0..j1.
// Whole panels of a sample are written to C. The others have columns of several samples:
// their sums are in the workspace, [panel][row][column], until they are final.
func (g *gemm) multiplyPlanes(ws *workspace, a *float32, ars, acs int, b panels, i0, i, end, i1, j0, j1, add int, final bool) {
	m, nr := g.planes, g.sizes().nr
	shared := ws.extra
	for j := j0; j < j1; {
		sample, p := j/m.plane, j%m.plane
		n := min(m.plane-p, j1-j)
		if j+n < j1 {
			n = n / nr * nr
		}
		panel := b.data[(j-j0)/nr*b.step:]
		if n > 0 {
			c := g.c[sample*m.apartC+i*g.ldc+p:]
			_ = c[(end-i-1)*g.ldc+n-1]
			g.inner(&c[0], g.ldc, a, ars, acs, panel, b, end-i, n, add)
			j += n
			continue
		}
		n = min(nr, j1-j)
		sums := shared[(i-i0)*nr:][:(end-i)*nr]
		shared = shared[(i1-i0)*nr:]
		g.inner(&sums[0], nr, a, ars, acs, panel, b, end-i, n, add)
		if final {
			m.each(j, j+n, func(sample, p, from, to int) {
				for r := range end - i {
					copy(g.c[sample*m.apartC+(i+r)*g.ldc+p:], sums[r*nr+from-j:r*nr+to-j])
				}
			})
		}
		j += n
	}
}

// roomForPlanes makes room for what multiplyPlanes keeps in the workspace.
func (g *gemm) roomForPlanes(ws *workspace, rows, cols int) {
	m, nr := g.planes, g.sizes().nr
	if m.plane%nr != 0 {
		ws.arena(min(work.CeilDiv(cols, nr), cols/m.plane+1) * rows * nr)
	}
}

// afterPlanes lets the epilogue follow rows i..end of columns j0..j1.
func (g *gemm) afterPlanes(i, end, j0, j1 int) {
	g.planes.each(j0, j1, func(sample, p, from, to int) {
		row := g.row + sample*g.planes.rows
		(*g.then).After(row+i, row+end, p, p+to-from)
	})
}
