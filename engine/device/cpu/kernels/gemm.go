package kernels

// The core of every product: C = A*B, or C += A*B, over blocks of K.
//
// A block of B, blockK x tileN, is packed into panels of unrollN columns and
// 16 rows of A at a time into panels of unrollM, so that the inner loop reads
// both in order and checks no bounds; 2x4 sums live in registers, which is what
// the Go compiler keeps there without spilling. Panels are padded with zeros
// and only what is inside C is written back.
//
// Each element of C is summed over k in order within a block of blockK, and
// the blocks' sums are added in order: nothing else decides its bits, neither
// where the tile lies nor how large it is.
const (
	blockK  = 256
	unrollM = 2
	unrollN = 4
	packM   = 16
	tileN   = 96
)

// panels is the packing memory of one chunk, 112 KiB on its stack: Go moves
// variables to the heap only from 128 KiB on.
type panels struct {
	a [packM / unrollM][blockK][unrollM]float32
	b [tileN / unrollN][blockK][unrollN]float32
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
			g.sweep(buf, kn, i, ie, j0, j1, g.add || k0 > 0)
		}
	}
}

// sweep multiplies the packed rows i0..i1 with the packed columns j0..j1.
func (g *gemm) sweep(buf *panels, kn, i0, i1, j0, j1 int, add bool) {
	var acc [unrollM * unrollN]float32
	for j := j0; j < j1; j += unrollN {
		b := buf.b[(j-j0)/unrollN][:kn]
		for i := i0; i < i1; i += unrollM {
			micro(buf.a[(i-i0)/unrollM][:kn], b, &acc)
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

// micro is the inner loop: 2x4 sums over k.
func micro(a [][unrollM]float32, b [][unrollN]float32, acc *[unrollM * unrollN]float32) {
	var c00, c01, c02, c03, c10, c11, c12, c13 float32
	b = b[:len(a)]
	for k := range a {
		ak, bk := &a[k], &b[k]
		b0, b1, b2, b3 := bk[0], bk[1], bk[2], bk[3]
		x := ak[0]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		x = ak[1]
		c10 += x * b0
		c11 += x * b1
		c12 += x * b2
		c13 += x * b3
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
		dst := buf.a[(i-i0)/unrollM][:kn]
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
	s := 0
	for ; len(row) >= unrollN; s++ {
		buf.b[s][k] = [unrollN]float32(row)
		row = row[unrollN:]
	}
	if len(row) > 0 {
		var last [unrollN]float32
		copy(last[:], row)
		buf.b[s][k] = last
	}
}

// packColumns packs columns j0..j1 of a column-major B, k0..k0+kn.
func packColumns(buf *panels, b *operand, k0, kn, j0, j1 int) {
	for j := j0; j < j1; j += unrollN {
		dst := buf.b[(j-j0)/unrollN][:kn]
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
// leave some eight chunks to share among threads.
func newGrid(count, m, n int) grid {
	g := grid{m: m, n: n, count: count, stepM: 128}
	g.setN(max(1, chunks(n, tileN)))
	for g.chunks() < 8 && g.stepM > 32 {
		g.setM(g.stepM / 2)
	}
	for g.chunks() < 8 && g.stepN > 32 {
		g.setN(g.tilesN * 2)
	}
	g.setM(g.stepM)
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
