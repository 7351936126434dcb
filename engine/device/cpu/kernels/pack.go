package kernels

// panels are the columns of a block of B: panel p starts at element p*step and
// has nr columns; its k rows are stride elements apart.
type panels struct {
	data         []float32
	step, stride int
	k            int
	paired       bool // two rows of bfloat16 are one
}

// steps is how many the inner kernel takes.
func (p *panels) steps() int {
	if p.paired {
		return (p.k + 1) / 2
	}
	return p.k
}

// packA writes the panels of A for groups p and after, which begin at m*p/groups
// from row i0 on. It goes through few columns of all panels at a time: what
// columns that are far apart have in a page or a cache line is then read
// together.
func (g *gemm) packA(ws *workspace, i0, m, p, groups, k0, kn int) {
	n := min(packGroups, groups-p)
	if g.rowsOfA() {
		for q := range n {
			i, end := i0+m*(p+q)/groups, i0+m*(p+q+1)/groups
			g.roundRows(ws, q, i, end, k0, kn)
		}
		return
	}
	strip := levelSizes[g.level].strip
	for k := 0; k < kn; k += packDepth {
		for q := range n {
			i, end := i0+m*(p+q)/groups, i0+m*(p+q+1)/groups
			src := &g.a.data[i*g.a.rs+(k0+k)*g.a.cs]
			g.level.gather(&ws.a[(q*blockK+k)*strip], src, g.a.rs, g.a.cs, end-i, min(packDepth, kn-k))
		}
	}
	for q := 0; g.bf16 && q < n; q++ {
		g.level.roundPanel(ws.a[q*blockK*strip:], strip, kn)
	}
}

// panelA is the panel of group p, with its strides.
func (g *gemm) panelA(ws *workspace, p int) (a *float32, rs, cs int) {
	strip := levelSizes[g.level].strip
	a = &ws.a[p%packGroups*strip*blockK]
	if g.rowsOfA() {
		return a, blockK, 1
	}
	return a, 1, strip
}

// packB writes columns j0..j1 of B, k0..k0+kn, as panels of nr columns. What a
// last, narrower panel is filled up with does not matter: a column of B only
// reaches its own column of C.
func (g *gemm) packB(ws *workspace, k0, kn, j0, j1 int) panels {
	s := levelSizes[g.level]
	p := panels{data: ws.b, step: s.nr * chunks(kn, depthStep) * depthStep, stride: s.nr, k: kn}
	switch {
	case g.im != nil && !g.im.transposed:
		row := ws.rows[:j1-j0]
		for k := range kn {
			g.im.fill(row, k0+k, j0)
			g.level.spread(&p.data[k*s.nr], p.step, &row[0], 0, len(row), 1)
		}
	case g.im == nil && g.b.cs == 1:
		g.b.check(k0+kn, j1)
		g.level.spread(&p.data[0], p.step, &g.b.data[k0*g.b.rs+j0], g.b.rs, j1-j0, kn)
	default:
		g.packColumns(ws, p, k0, j0, j1)
	}
	for j := j0; g.bf16 && j < j1; j += s.nr {
		p.paired = g.level.roundPanel(p.data[(j-j0)/s.nr*p.step:], s.nr, kn)
	}
	return p
}

// packColumns packs a B whose columns lie in order, or can be read in order
// from an image, by transposing some of them at a time.
func (g *gemm) packColumns(ws *workspace, p panels, k0, j0, j1 int) {
	s := levelSizes[g.level]
	if g.im == nil {
		g.b.check(k0+p.k, j1)
	}
	for j := j0; j < j1; j += s.lanes {
		dst := &p.data[(j-j0)/s.nr*p.step+(j-j0)%s.nr]
		if g.im == nil && j+s.lanes <= j1 {
			g.level.transpose(dst, s.nr, &g.b.data[j*g.b.cs+k0], g.b.cs, p.k)
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
		g.level.transpose(dst, s.nr, &ws.rows[0], blockK, p.k)
	}
}
