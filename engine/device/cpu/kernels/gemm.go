package kernels

// The core of every product: C = A*B, or C += A*B, over blocks of K.
//
// A block of B, blockK x tileN, is packed into panels of unrollN columns and
// 16 rows of A at a time into panels of unrollM, so that the inner loop reads
// both in order and checks no bounds; 2x4 sums live in registers, which is what
// the Go compiler keeps there without spilling, over four steps of k at a time.
// Panels are padded with zeros and only what is inside C is written back.
//
// Each element of C is summed over k in order within a block of blockK, and
// the blocks' sums are added in order: nothing else decides its bits, neither
// where the tile lies nor how large it is.
const (
	blockK  = 256
	unrollK = 4
	unrollM = 2
	unrollN = 4
	packM   = 16
	tileN   = 96
)

// panels is the packing memory of one chunk. Row k of panel p is element
// p*depth + k, depth being the rows of the current block rounded up to
// unrollK.
type panels struct {
	a     [][unrollM]float32
	b     [][unrollN]float32
	depth int
}

// largePanels is on the stack of a chunk; it holds any block. At 112 KiB it is
// just small enough: Go moves variables to the heap from 128 KiB on.
type largePanels struct {
	a [packM / unrollM * blockK][unrollM]float32
	b [tileN / unrollN * blockK][unrollN]float32
}

// smallPanels is what is cleared faster, for products it is enough for.
type smallPanels struct {
	a [packM / unrollM * smallK][unrollM]float32
	b [tileN / unrollN * smallK][unrollN]float32
}

const smallK = 32

func (s *largePanels) panels() panels { return panels{a: s.a[:], b: s.b[:]} }
func (s *smallPanels) panels() panels { return panels{a: s.a[:], b: s.b[:]} }

// panelA and panelB are panel p.
func (b *panels) panelA(p int) [][unrollM]float32 { return b.a[p*b.depth:][:b.depth] }
func (b *panels) panelB(p int) [][unrollN]float32 { return b.b[p*b.depth:][:b.depth] }

// begin starts a block of kn rows, and clears those that are only padding.
func (b *panels) begin(kn, rows, cols int) {
	b.depth = chunks(kn, unrollK) * unrollK
	for p := range chunks(rows, unrollM) {
		clear(b.panelA(p)[kn:])
	}
	for p := range chunks(cols, unrollN) {
		clear(b.panelB(p)[kn:])
	}
}

// operand is a matrix in memory: element (i, j) is data[i*rs+j*cs]. One of the
// strides is 1.
type operand struct {
	data   []float32
	rs, cs int
}

// gemm is one product. b is read through im where that is not nil.
type gemm struct {
	a, b operand
	im   *im2col
	c    []float32
	ldc  int
	k    int
	add  bool // to what c holds
}

// do computes one tile with panels on its own stack.
func (g *gemm) do(i0, i1, j0, j1 int) {
	if g.k <= smallK {
		g.doSmall(i0, i1, j0, j1)
		return
	}
	var s largePanels
	buf := s.panels()
	g.tile(&buf, i0, i1, j0, j1)
}

func (g *gemm) doSmall(i0, i1, j0, j1 int) {
	var s smallPanels
	buf := s.panels()
	g.tile(&buf, i0, i1, j0, j1)
}

// run computes the whole of an m x n product in one goroutine.
func (g *gemm) run(buf *panels, m, n int) {
	for j := 0; j < n; j += tileN {
		g.tile(buf, 0, m, j, min(j+tileN, n))
	}
}

// tile computes rows i0..i1 and columns j0..j1 of C, at most tileN columns.
func (g *gemm) tile(buf *panels, i0, i1, j0, j1 int) {
	if g.k == 0 && !g.add {
		for i := i0; i < i1; i++ {
			clear(g.c[i*g.ldc+j0 : i*g.ldc+j1])
		}
	}
	for k0 := 0; k0 < g.k; k0 += blockK {
		kn := min(blockK, g.k-k0)
		buf.begin(kn, min(packM, i1-i0), j1-j0)
		switch {
		case g.im != nil && g.im.transposed:
			g.im.packT(buf, k0, kn, j0, j1)
		case g.im != nil:
			g.im.pack(buf, k0, kn, j0, j1)
		case g.b.cs == 1:
			packRows(buf, &g.b, k0, kn, j0, j1)
		default:
			packColumns(buf, &g.b, k0, kn, j0, j1)
		}
		for i := i0; i < i1; i += packM {
			ie := min(i+packM, i1)
			packA(buf, &g.a, k0, kn, i, ie)
			g.sweep(buf, i, ie, j0, j1, g.add || k0 > 0)
		}
	}
}

// sweep multiplies the packed rows i0..i1 with the packed columns j0..j1.
func (g *gemm) sweep(buf *panels, i0, i1, j0, j1 int, add bool) {
	var acc [unrollM * unrollN]float32
	for j := j0; j < j1; j += unrollN {
		b := buf.panelB((j - j0) / unrollN)
		for i := i0; i < i1; i += unrollM {
			micro(buf.panelA((i-i0)/unrollM), b, &acc)
			c := g.c[i*g.ldc+j:]
			if i+unrollM <= i1 && j+unrollN <= j1 {
				storeRow(c, acc[:unrollN], add)
				storeRow(c[g.ldc:], acc[unrollN:], add)
				continue
			}
			for r := 0; i+r < i1 && r < unrollM; r++ {
				storeEdge(c[r*g.ldc:], acc[r*unrollN:][:min(unrollN, j1-j)], add)
			}
		}
	}
}

// micro is the inner loop: 2x4 sums over k, unrolled by hand, since the loop's
// own bookkeeping would cost a third of the time.
func micro(a [][unrollM]float32, b [][unrollN]float32, acc *[unrollM * unrollN]float32) {
	var c00, c01, c02, c03, c10, c11, c12, c13 float32
	for len(a) >= unrollK && len(b) >= unrollK {
		ak, bk := (*[unrollK][unrollM]float32)(a), (*[unrollK][unrollN]float32)(b)
		b0, b1, b2, b3 := bk[0][0], bk[0][1], bk[0][2], bk[0][3]
		x := ak[0][0]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		x = ak[0][1]
		c10 += x * b0
		c11 += x * b1
		c12 += x * b2
		c13 += x * b3
		b0, b1, b2, b3 = bk[1][0], bk[1][1], bk[1][2], bk[1][3]
		x = ak[1][0]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		x = ak[1][1]
		c10 += x * b0
		c11 += x * b1
		c12 += x * b2
		c13 += x * b3
		b0, b1, b2, b3 = bk[2][0], bk[2][1], bk[2][2], bk[2][3]
		x = ak[2][0]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		x = ak[2][1]
		c10 += x * b0
		c11 += x * b1
		c12 += x * b2
		c13 += x * b3
		b0, b1, b2, b3 = bk[3][0], bk[3][1], bk[3][2], bk[3][3]
		x = ak[3][0]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		x = ak[3][1]
		c10 += x * b0
		c11 += x * b1
		c12 += x * b2
		c13 += x * b3
		a, b = a[unrollK:], b[unrollK:]
	}
	*acc = [unrollM * unrollN]float32{c00, c01, c02, c03, c10, c11, c12, c13}
}

func storeRow(c, acc []float32, add bool) {
	c, acc = c[:unrollN], acc[:unrollN]
	if !add {
		c[0], c[1], c[2], c[3] = acc[0], acc[1], acc[2], acc[3]
		return
	}
	c[0] += acc[0]
	c[1] += acc[1]
	c[2] += acc[2]
	c[3] += acc[3]
}

func storeEdge(c, acc []float32, add bool) {
	for j, v := range acc {
		if add {
			v = c[j] + v
		}
		c[j] = v
	}
}

// packA packs rows i0..i1 of A, k0..k0+kn, in panels of two rows; a missing
// second row is zeros.
func packA(buf *panels, a *operand, k0, kn, i0, i1 int) {
	for i := i0; i < i1; i += unrollM {
		dst := buf.panelA((i - i0) / unrollM)[:kn]
		src := a.data[i*a.rs+k0*a.cs:]
		switch {
		case i+1 == i1:
			for k := range dst {
				dst[k] = [unrollM]float32{src[k*a.cs], 0}
			}
		case a.cs == 1:
			x, y := src[:len(dst)], src[a.rs:][:len(dst)]
			for k := range dst {
				dst[k] = [unrollM]float32{x[k], y[k]}
			}
		default:
			for k := range dst {
				s := src[k*a.cs:]
				dst[k] = [unrollM]float32{s[0], s[a.rs]}
			}
		}
	}
}

// packRows packs columns j0..j1 of a row-major B, k0..k0+kn.
func packRows(buf *panels, b *operand, k0, kn, j0, j1 int) {
	for k := range kn {
		spread(buf, k, b.data[(k0+k)*b.rs+j0:][:j1-j0])
	}
}

// spread writes row k of the packed B: four columns to a panel, the last one
// filled up with zeros.
func spread(buf *panels, k int, row []float32) {
	for ; len(row) >= unrollN; k += buf.depth {
		buf.b[k] = [unrollN]float32(row)
		row = row[unrollN:]
	}
	if len(row) > 0 {
		var last [unrollN]float32
		copy(last[:], row)
		buf.b[k] = last
	}
}

// packColumns packs columns j0..j1 of a column-major B, k0..k0+kn.
func packColumns(buf *panels, b *operand, k0, kn, j0, j1 int) {
	for j := j0; j < j1; j += unrollN {
		dst := buf.panelB((j - j0) / unrollN)[:kn]
		if j+unrollN > j1 {
			for l := range unrollN {
				packLane(dst, b.data, (j+l)*b.cs+k0, l, j+l < j1)
			}
			continue
		}
		s := b.data[j*b.cs+k0:]
		w, x, y, z := s[:len(dst)], s[b.cs:][:len(dst)], s[2*b.cs:][:len(dst)], s[3*b.cs:][:len(dst)]
		for k := range dst {
			dst[k] = [unrollN]float32{w[k], x[k], y[k], z[k]}
		}
	}
}

// packLane writes one column of a panel, zeros where there is none.
func packLane(dst [][unrollN]float32, data []float32, at, lane int, there bool) {
	for k := range dst {
		v := float32(0)
		if there {
			v = data[at+k]
		}
		dst[k][lane] = v
	}
}

// grid is how the m x n elements of each of count products are cut into tiles.
type grid struct {
	m, n, count    int
	stepM, stepN   int
	tilesM, tilesN int
}

// newGrid prefers large tiles, which share packed panels, as long as they
// leave some eight chunks to share among threads: first rows are cut down to
// leastM, then columns, then rows again.
func newGrid(count, m, n, leastM int) grid {
	g := grid{m: m, n: n, count: count, stepM: 128}
	g.setN(max(1, chunks(n, tileN)))
	for g.chunks() < 8 && g.stepM > leastM {
		g.setM(g.stepM / 2)
	}
	for g.chunks() < 8 && g.stepN > 32 {
		g.setN(g.tilesN * 2)
	}
	for g.chunks() < 4 && g.stepM > packM {
		g.setM(g.stepM / 2)
	}
	return g
}

func (g *grid) setM(step int) {
	g.stepM = step
	g.tilesM = chunks(g.m, step)
}

// setN cuts the columns evenly into at least that many tiles of whole panels.
func (g *grid) setN(tiles int) {
	g.stepN = max(unrollN, chunks(chunks(g.n, tiles), unrollN)*unrollN)
	g.tilesN = chunks(g.n, g.stepN)
	g.tilesM = chunks(g.m, g.stepM)
}

// chunks is the number of tiles of all products.
func (g *grid) chunks() int { return g.count * g.tilesM * g.tilesN }

// at is tile i: which product, rows and columns.
func (g *grid) at(i int) (p, i0, i1, j0, j1 int) {
	j0, j1 = span(i%g.tilesN, g.stepN, g.n)
	i /= g.tilesN
	i0, i1 = span(i%g.tilesM, g.stepM, g.m)
	return i / g.tilesM, i0, i1, j0, j1
}
