package kernels

// panels are the columns of a block of B: panel p starts at element p*step and
// has nr columns; its k rows are stride elements apart.
type panels struct {
	data         []float32
	step, stride int
	k            int
}

// packA writes the panels of A for group p of rows i0..i1 and some after it. It
// goes through few columns of all panels at a time: what columns that are far
// apart have in a page or a cache line is then read together.
func (g *gemm) packA(ws *workspace, i0, i1, p, groups, k0, kn int) {
	s := g.isa.sizes(g.format)
	n := min(s.groups, groups-p)
	if g.format.inTiles() {
		i, end := g.group(i0, i1, p, groups)
		g.tilesOfA(ws, ws.a, i, end, k0, kn)
		return
	}
	if g.rowsOfA() {
		for q := range n {
			i, end := g.group(i0, i1, p+q, groups)
			g.roundRows(ws.a[q*s.strip*blockK:], i, end, k0, kn)
		}
		return
	}
	strip := s.strip
	for k := 0; k < kn; k += packDepth {
		for q := range n {
			i, end := g.group(i0, i1, p+q, groups)
			src := &g.a.data[i*g.a.rs+(k0+k)*g.a.cs]
			g.isa.gather(&ws.a[(q*blockK+k)*strip], src, g.a.rs, g.a.cs, end-i, min(packDepth, kn-k))
		}
	}
	for q := 0; g.format != formatFloat && q < n; q++ {
		g.roundPanel(ws.a[q*blockK*strip:], strip, kn)
	}
}

// panelA is the panel of group p, with its strides.
func (g *gemm) panelA(ws *workspace, p int) (a *float32, rs, cs int) {
	s := g.isa.sizes(g.format)
	q := p % s.groups * s.strip
	if g.rowsOfA() {
		return &ws.a[q*blockK], blockK, 1
	}
	return &ws.a[q*blockK], 1, s.strip
}

// packB writes columns j0..j1 of B, p.k rows from k0 on, to panels of nr
// columns. What a last, narrower panel is filled up with does not matter: a
// column of B only reaches its own column of C.
func (g *gemm) packB(ws *workspace, p panels, k0, j0, j1 int) {
	s, kn := g.isa.sizes(g.format), p.k
	switch {
	case g.format.inTiles():
		g.tilesOfB(ws, p, k0, j0, j1)
	case g.format == formatPairs:
		g.pairB(ws, p, k0, j0, j1)
	case g.im != nil && !g.im.transposed:
		row := ws.rows[:j1-j0]
		for k := range kn {
			g.im.fill(row, k0+k, j0)
			g.isa.spread(&p.data[k*s.nr], p.step, &row[0], 0, len(row), 1)
		}
	case g.im == nil && g.b.cs == 1:
		g.b.check(k0+kn, j1)
		g.isa.spread(&p.data[0], p.step, &g.b.data[k0*g.b.rs+j0], g.b.rs, j1-j0, kn)
	default:
		g.packColumns(ws, p, k0, j0, j1)
	}
	for j := j0; g.format == formatRounded && j < j1; j += s.nr {
		panel := p.data[(j-j0)/s.nr*p.step:][:kn*s.nr]
		g.isa.round(panel, panel)
	}
}

// packColumns packs a B whose columns lie in order, or can be read in order
// from an image, by transposing some of them at a time.
func (g *gemm) packColumns(ws *workspace, p panels, k0, j0, j1 int) {
	s := isaSizes[g.isa]
	if g.im == nil {
		g.b.check(k0+p.k, j1)
	}
	for j := j0; j < j1; j += s.lanes {
		dst := &p.data[(j-j0)/s.nr*p.step+(j-j0)%s.nr]
		if g.im == nil && j+s.lanes <= j1 {
			g.isa.transpose(dst, s.nr, &g.b.data[j*g.b.cs+k0], g.b.cs, p.k)
			continue
		}
		for l := range min(s.lanes, j1-j) {
			column := ws.rows[l*blockK:][:p.k]
			if g.im != nil {
				g.im.fill(column, j+l, k0)
			} else {
				copy(column, g.b.data[(j+l)*g.b.cs+k0:])
			}
		}
		g.isa.transpose(dst, s.nr, &ws.rows[0], blockK, p.k)
	}
}

func padRows(dst []float32, pitch int, src []float32, srs, cols, rows, left int) {
	for i := range rows {
		row := dst[i*pitch:][:pitch]
		clear(row[:left])
		copy(row[left:], src[i*srs:][:cols])
		clear(row[left+cols:])
	}
}
