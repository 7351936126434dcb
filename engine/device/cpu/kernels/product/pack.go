package product

// packDepth is the columns at a time in which several panels of A are packed.
const packDepth = 32

// packA writes the panels of A for group p of rows i0..i1 and for some groups after it.
// It goes through few columns of all panels at a time: of columns that are far apart, all
// that lies in one page or cache line is then read together.
func (g *gemm) packA(ws *workspace, i0, i1, p, groups, k0, kn int) {
	s := sizesOf(g.isa, g.format)
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
			src, columns := &g.a.data[i*g.a.rs+(k0+k)*g.a.cs], min(packDepth, kn-k)
			if g.format == formatPairs {
				gatherPairs(&ws.a[(q*blockK+k/2)*strip], src, g.a.cs, end-i, columns)
			} else {
				gatherColumns(g.isa, &ws.a[(q*blockK+k)*strip], src, g.a.rs, g.a.cs, end-i, columns)
			}
		}
	}
	for q := 0; g.format == formatRounded && q < n; q++ {
		panel := ws.a[q*blockK*strip:][:kn*strip]
		round(g.isa, panel, panel)
	}
}

// panelA is the panel of group p, with its strides.
func (g *gemm) panelA(ws *workspace, p int) (a *float32, rs, cs int) {
	s := sizesOf(g.isa, g.format)
	q := p % s.groups * s.strip
	if g.rowsOfA() {
		return &ws.a[q*blockK], blockK, 1
	}
	return &ws.a[q*blockK], 1, s.strip
}

// packB writes columns j0..j1 of B, p.k rows from k0 on, to panels of nr columns. The
// last panel may be narrower, and filled up with anything: a column of B only reaches its
// own column of C.
func (g *gemm) packB(ws *workspace, p panels, k0, j0, j1 int) {
	s, kn := sizesOf(g.isa, g.format), p.k
	switch {
	case g.format.inTiles():
		g.tilesOfB(ws, p, k0, j0, j1)
	case g.planes != nil:
		g.packPlanes(ws, p, k0, j0, j1)
	case g.format == formatPairs:
		g.pairB(ws, p, k0, j0, j1)
	case g.im != nil && !g.im.transposed:
		row := ws.rows[:j1-j0]
		for k := range kn {
			g.im.fill(row, k0+k, j0)
			spread(g.isa, &p.data[k*s.nr], p.step, &row[0], 0, len(row), 1)
		}
	case g.im == nil && g.b.cs == 1:
		g.b.check(k0+kn, j1)
		spread(g.isa, &p.data[0], p.step, &g.b.data[k0*g.b.rs+j0], g.b.rs, j1-j0, kn)
	default:
		g.packColumns(ws, p, k0, j0, j1)
	}
	for j := j0; g.format == formatRounded && j < j1; j += s.nr {
		panel := p.data[(j-j0)/s.nr*p.step:][:kn*s.nr]
		round(g.isa, panel, panel)
	}
}

// packColumns packs a B whose columns lie in order, or can be read in order from an
// image: it transposes some of them at a time.
func (g *gemm) packColumns(ws *workspace, p panels, k0, j0, j1 int) {
	s := isaSizes[g.isa]
	if g.im == nil {
		g.b.check(k0+p.k, j1)
	}
	for j := j0; j < j1; j += s.lanes {
		dst := &p.data[(j-j0)/s.nr*p.step+(j-j0)%s.nr]
		if g.im == nil && j+s.lanes <= j1 {
			transpose(g.isa, dst, s.nr, &g.b.data[j*g.b.cs+k0], g.b.cs, p.k)
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
		transpose(g.isa, dst, s.nr, &ws.rows[0], blockK, p.k)
	}
}
