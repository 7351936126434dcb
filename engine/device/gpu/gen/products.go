package gen

import (
	"fmt"
	"strings"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var products = map[string]template{"matmul": of(matmul)}

// product is sums over k of a(i, k) b(k, j), for i < m and j < n, in batches p. Sums go
// up in k with one fused multiply-add for each product, so their bits do not depend on
// tiles.
//
// The texts are C, and may use p, M, N and K. Those of a are for row i, those of b for
// column j.
type product struct {
	batches, m, n, k int
	params           []param
	rowOfA, colOfB   string // declarations of numbers that do not depend on k
	a, b             string // the numbers at k
	shared, eachK    string // local memory for what lane l finds out about a k of its own, and how; may be empty
	store            string // the statement that stores v, the sum of i and j
	parts            int    // of the range of k; batch p has part p % parts
}

// cutSums is the parts of the sums of a product: short ones stay whole, and tiles enough to
// keep a device busy need no more of them. It depends on sizes alone.
func (p *product) cutSums() int {
	const busy, shortest = 256, 1024
	tiles := max(1, p.batches*(up(p.m, 64)/64)*(up(p.n, 64)/64))
	return max(1, min(up(p.k, shortest)/shortest, up(busy, tiles)/tiles))
}

// A group of 64 lanes, 8 by 8, computes a tile. Each lane computes a part of it.
const (
	lanesOfTile = 64
	depth       = 16 // steps of k for which a tile's operands are in local memory at once
)

// sideOf is the rows or columns of the tiles for n of them. Large tiles read less, small
// ones waste less at the edges.
func sideOf(n int) int {
	for _, side := range []int{64, 32} {
		if up(n, side) <= 3*n/2 {
			return side
		}
	}
	return 16
}

const productText = `	SHARED f32 TA[DEPTH * ROWS], TB[DEPTH * COLS];
OFK	i64 g = GROUP, tn = g % tilesN, tm = g / tilesN % tilesM, p = g / tilesN / tilesM, from = 0, to = K;
	CUTi64 top = tm * ROWS, left = tn * COLS;
	i64 i = top + LANE % ROWS, j = left + LANE % COLS;
	if (i >= M) i = M - 1;
	if (j >= N) j = N - 1;
	ROWOFA
	COLOFB
	f32 sum[HIGH * WIDE];
	for (i32 e = 0; e < HIGH * WIDE; e++) sum[e] = 0.0f;
	for (i64 k0 = from; k0 < to; k0 += DEPTH) {
EACHK		for (i32 l = LANE / ROWS; l < DEPTH; l += 64 / ROWS) {
			i64 k = k0 + l < to ? k0 + l : to - 1;
			TA[l * ROWS + LANE % ROWS] = NUMBEROFA;
		}
		for (i32 l = LANE / COLS; l < DEPTH; l += 64 / COLS) {
			i64 k = k0 + l < to ? k0 + l : to - 1;
			TB[l * COLS + LANE % COLS] = NUMBEROFB;
		}
		BARRIER;
		i32 most = to - k0 < DEPTH ? (i32)(to - k0) : DEPTH, row = (i32)LANE / 8 * HIGH, col = (i32)LANE % 8 * WIDE;
		f32 s[HIGH * WIDE];
		UNROLL for (i32 e = 0; e < HIGH * WIDE; e++) s[e] = sum[e];
		for (i32 l = 0; l < most; l++) {
			UNROLL for (i32 r = 0; r < HIGH; r++) {
				f32 x = TA[l * ROWS + row + r];
				UNROLL for (i32 c = 0; c < WIDE; c++) s[r * WIDE + c] = FMA(x, TB[l * COLS + col + c], s[r * WIDE + c]);
			}
		}
		UNROLL for (i32 e = 0; e < HIGH * WIDE; e++) sum[e] = s[e];
		BARRIER;
	}
	top += LANE / 8 * HIGH;
	left += LANE % 8 * WIDE;
	if (!STATUS[0]) for (i32 e = 0; e < HIGH * WIDE; e++) {
		i64 i = top + e / WIDE, j = left + e % WIDE;
		if (i < M && j < N) { f32 v = sum[e]; STORE }
	}
`

// product adds the kernel of a product.
func (w *writer) product(p product) {
	rows, cols := sideOf(p.m), sideOf(p.n)
	cut, groups := "", p.batches*(up(p.m, rows)/rows)*(up(p.n, cols)/cols)
	params := append(p.params, number("M", p.m), number("N", p.n), number("K", p.k), number("tilesM", up(p.m, rows)/rows), number("tilesN", up(p.n, cols)/cols))
	if p.parts > 1 {
		groups *= p.parts
		params = append(params, number("parts", p.parts), number("length", up(p.k, p.parts)/p.parts))
		cut = "i64 part = p % parts;\n\tp /= parts;\n\tfrom = part * length;\n\tif (to > from + length) to = from + length;\n\t"
	}
	eachK := ""
	if p.eachK != "" {
		eachK = fmt.Sprintf("\t\tif (LANE < %d) {\n\t\t\ti64 l = LANE, k = k0 + l < to ? k0 + l : to - 1;\n%s\t\t}\n\t\tBARRIER;\n", depth, p.eachK)
	}
	body := strings.NewReplacer("OFK", strings.ReplaceAll(p.shared, "DEPTH", fmt.Sprint(depth)), "EACHK", eachK, "DEPTH", fmt.Sprint(depth), "ROWS", fmt.Sprint(rows), "COLS", fmt.Sprint(cols), "HIGH", fmt.Sprint(rows/8), "WIDE", fmt.Sprint(cols/8),
		"CUT", cut, "ROWOFA", p.rowOfA, "COLOFB", p.colOfB, "NUMBEROFA", p.a, "NUMBEROFB", p.b, "STORE", p.store).Replace(productText)
	w.tiles(groups, lanesOfTile, params, body)
}

// matmul is one product for each batch.
func matmul(w *writer, o ops.MatMul) {
	a, b := w.node.In[0].Meta.Shape, w.node.In[1].Meta.Shape
	m, n, k := o.Dims(a, b)
	batches := a[:a.Rank()-2].Elems()
	bBatch := k * n
	if b.Rank() < a.Rank() {
		m, batches, bBatch = m*batches, 1, 0
	}
	params, store := w.result()
	p := product{batches: batches, m: m, n: n, k: k,
		rowOfA: "A += p * M * K + i * K;", a: "A[k]",
		store: store("p * M * N + i * N + j", "v")}
	if o.TransA {
		p.rowOfA, p.a = "A += p * M * K + i;", "A[k * M]"
	}
	p.params = append(params, in(0, "A"), number("bBatch", bBatch))
	w.factorB(&p, o)
	if o.BF16 {
		p.a, p.b = "bf16_f("+p.a+")", "bf16_f("+p.b+")"
	}
	w.product(p)
}

// factorB has p read B, which may be stored in bfloat16 or int8.
func (w *writer) factorB(p *product, o ops.MatMul) {
	x := in(1, "B")
	p.colOfB, p.b = "B += p * bBatch + j;", "B[k * N]"
	if o.TransB {
		p.colOfB, p.b = "B += p * bBatch + j * K;", "B[k]"
	}
	switch b := w.node.In[1].Meta; b.DType {
	case shape.BFloat16:
		x, p.b = inHalves(1, "B"), "AS_FLOAT((i32)((u32)"+p.b+" << 16))"
	case shape.Int8Block:
		_, width := b.Rows()
		x, p.colOfB, p.b = inBytes(1, "B"), "", "int8_f(B + k * pitch, j)"
		if o.TransB {
			p.b = "int8_f(B + j * pitch, k)"
		}
		p.params = append(p.params, number("pitch", shape.BlocksBytes(width)))
	}
	p.params = append(p.params, x)
}
