package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// splitter turns numbers into terms of bfloat16: one, rounded, or three, whose sum is
// the number.
type splitter struct {
	c            *build.Context
	rounder      rounder
	terms        int
	high, half   reg.VecVirtual
	unsplittable reg.VecVirtual // NaN in lanes that met unsplittable values
}

func newSplitter(c *build.Context, terms int) splitter {
	s := splitter{c: c, terms: terms, high: c.ZMM()}
	bits := c.GP32()
	c.MOVL(U32(0xffff0000), bits)
	c.VPBROADCASTD(bits, s.high)
	if terms == 1 {
		s.rounder = newRounder(c)
		return s
	}
	s.half, s.unsplittable = c.ZMM(), c.ZMM()
	c.MOVL(U32(0x8000), bits)
	c.VPBROADCASTD(bits, s.half)
	c.VXORPS(s.unsplittable, s.unsplittable, s.unsplittable)
	return s
}

// split returns the terms of x, in the high halves of vectors; the low halves are
// undefined. Each term is the rest so far, rounded to 8 bits of precision, so the third
// is exact. The rest of an unsplittable value (one that rounds to an infinity, or is
// none) is NaN.
func (s *splitter) split(x reg.VecVirtual) []reg.VecVirtual {
	if s.terms == 1 {
		return []reg.VecVirtual{s.rounder.round(x)}
	}
	first, second, left, third := s.c.ZMM(), s.c.ZMM(), s.c.ZMM(), s.c.ZMM()
	s.c.VPADDD(s.half, x, first)
	s.c.VPANDD(s.high, first, first)
	s.c.VSUBPS(first, x, left)
	s.c.VPADDD(s.half, left, second)
	s.c.VPANDD(s.high, second, second)
	s.c.VSUBPS(second, left, third)
	s.c.VADDPS(third, s.unsplittable, s.unsplittable)
	return []reg.VecVirtual{first, second, third}
}

// joined is the terms of earlier and later, a pair in each word and the earlier one in
// its low half.
func (s *splitter) joined(earlier, later reg.VecVirtual) []reg.VecVirtual {
	low, high := s.split(earlier), s.split(later)
	for i := range low {
		s.c.VPSRLD(Imm(16), low[i], low[i])
		s.c.VPTERNLOGD(U8(0xf8), s.high, high[i], low[i]) // low or (high half of high)
	}
	return low
}

// pairs stores joined terms in tiles of a panel.
func (s *splitter) pairs(earlier, later reg.VecVirtual, to Mem) {
	for i, v := range s.joined(earlier, later) {
		s.c.VMOVDQU32(v, to.Offset(2*tileBytes*i))
	}
}

// end returns 1 bits for lanes that met unsplittable values, and ends the function.
func (s *splitter) end() {
	c := s.c
	if s.terms > 1 {
		nan, unsplittable := c.K(), c.GP32()
		c.VCMPPS(Imm(3), s.unsplittable, s.unsplittable, nan)
		c.KMOVW(nan, unsplittable)
		c.Store(unsplittable, c.ReturnIndex(0))
	}
	c.VZEROUPPER()
	c.RET()
}

// declareTiles declares a copy that makes panels for products with AMX.
func declareTiles(c *build.Context, terms int, from, params, what string, more ...string) tiles {
	name, result, verb := "Tiles"+from, "", "rounds %s to bfloat16"
	if terms > 1 {
		name, result, verb = "Split"+from, " uint32", "splits %s into three terms of bfloat16"
		more = append(more, "It returns 0 unless it met unsplittable values: those that round to an infinity, or are none.")
	}
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr(fmt.Sprintf("func(%s)%s", params, result))
	c.Pragma("noescape")
	c.Doc(append([]string{name + " " + fmt.Sprintf(verb, what) + " with AVX-512, for products with AMX:"}, more...)...)
	return tiles{Context: c, terms: terms}
}

// emitTilesOfRows writes the copy of rows whose steps of k lie in order.
func emitTilesOfRows(c *build.Context, terms int) {
	t := declareTiles(c, terms, "Rows", "dst *float32, src *float32, srs, rows, k int", "k numbers of at most 32 rows",
		"row i becomes row i of the tiles of a panel of A. What k lacks to 32 is zero. srs is the elements from row to row.")
	dst, src, srs, rows, k := t.load("dst"), t.load("src"), t.load("srs"), t.load("rows"), t.load("k")
	s := newSplitter(c, terms)
	c.SHLQ(Imm(2), srs)
	masks := tailMasks(c, k)
	next := c.GP64()
	c.IMUL3Q(Imm(ahead), srs, next)
	whole, from, to, n := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(k, whole)
	c.SHRQ(Imm(5), whole)
	c.ANDQ(Imm(31), k)
	c.Label("row")
	c.MOVQ(src, from)
	c.MOVQ(dst, to)
	c.MOVQ(whole, n)
	c.TESTQ(n, n)
	c.JEQ(LabelRef("tail"))
	c.Label("steps")
	for line := range 2 {
		c.PREFETCHT0(Mem{Base: from, Index: next, Scale: 1, Disp: 64 * line})
	}
	a, b := c.ZMM(), c.ZMM()
	c.VMOVUPS(Mem{Base: from}, a)
	c.VMOVUPS(Mem{Base: from, Disp: 64}, b)
	s.pairs(a, b, Mem{Base: to})
	c.ADDQ(I32(128), from)
	c.ADDQ(I32(int32(stepBytes(terms))), to)
	c.DECQ(n)
	c.JNE(LabelRef("steps"))
	c.Label("tail")
	c.TESTQ(k, k)
	c.JEQ(LabelRef("next"))
	c.VMOVUPS_Z(Mem{Base: from}, masks[0], a)
	c.VMOVUPS_Z(Mem{Base: from, Disp: 64}, masks[1], b)
	s.pairs(a, b, Mem{Base: to})
	c.Label("next")
	c.ADDQ(srs, src)
	c.ADDQ(I32(tileRow), dst)
	c.DECQ(rows)
	c.JNE(LabelRef("row"))
	s.end()
}

// tailMasks are masks of the first n%32 lanes of two vectors.
func tailMasks(c *build.Context, n reg.GPVirtual) [2]reg.OpmaskVirtual {
	bits, rest, low, high := c.GP32(), c.GP32(), c.K(), c.K()
	c.MOVL(n.As32(), rest)
	c.ANDL(Imm(31), rest)
	c.MOVL(U32(0xffffffff), bits)
	c.BZHIL(rest, bits, bits)
	c.KMOVW(bits, low)
	c.SHRL(Imm(16), bits)
	c.KMOVW(bits, high)
	return [2]reg.OpmaskVirtual{low, high}
}

// columns is a copy of columns to panels that is being written.
type columns struct {
	tiles
	s                splitter
	dst, src, srs, k reg.GPVirtual // at the pair of rows, and k from the 32 steps on
	below, next      reg.GPVirtual // from a row to the later one of its pair, and to one to ask for
	row              reg.GPVirtual
	rest, bits       reg.GPVirtual        // lanes of the last panel
	present          [2]reg.OpmaskVirtual // all lanes, for each of the two rows that there is
	tail             [2][2]reg.OpmaskVirtual
}

// emitTilesOfColumns writes the copy of columns, whose steps of k are rows.
func emitTilesOfColumns(c *build.Context, terms int) {
	t := &columns{tiles: declareTiles(c, terms, "Columns", "dst *float32, step int, src *float32, srs, cols, k int", "k rows of cols columns",
		"32 columns each become the tiles of a panel of B, step words from panel to panel. What k lacks to 32 is zero.",
		"srs is the elements from row to row.")}
	t.dst, t.src, t.srs, t.k = t.load("dst"), t.load("src"), t.load("srs"), t.load("k")
	t.s = newSplitter(c, terms)
	c.SHLQ(Imm(2), t.srs)
	t.below, t.next, t.row, t.rest, t.bits = c.GP64(), c.GP64(), c.GP64(), c.GP32(), c.GP32()
	c.MOVQ(t.srs, t.below)
	c.SHLQ(Imm(4), t.below)
	c.IMUL3Q(Imm(ahead), t.srs, t.next)
	cols := t.load("cols")
	c.ANDQ(Imm(31), cols)
	c.MOVL(U32(0xffffffff), t.rest)
	c.BZHIL(cols.As32(), t.rest, t.rest)
	c.Label("steps")
	c.XORQ(t.row, t.row)
	c.Label("row")
	t.masks()
	t.pair()
	c.ADDQ(t.srs, t.src)
	c.ADDQ(I32(tileRow), t.dst)
	c.INCQ(t.row)
	c.CMPQ(t.row, Imm(tileRows))
	c.JLT(LabelRef("row"))
	c.ADDQ(t.below, t.src)
	c.ADDQ(I32(int32(stepBytes(terms)-tileBytes)), t.dst)
	c.SUBQ(Imm(32), t.k)
	c.JGT(LabelRef("steps"))
	t.s.end()
}

// masks finds which of the two rows there are, and the lanes of the last panel in
// each.
func (t *columns) masks() {
	t.present = [2]reg.OpmaskVirtual{t.K(), t.K()}
	t.tail = [2][2]reg.OpmaskVirtual{{t.K(), t.K()}, {t.K(), t.K()}}
	at, none := t.GP64(), t.GP32()
	t.MOVQ(t.row, at)
	t.XORL(none, none)
	for i := range 2 {
		t.MOVL(U32(0xffffffff), t.bits)
		t.CMPQ(at, t.k)
		t.CMOVLGE(none, t.bits)
		t.KMOVW(t.bits, t.present[i])
		t.ANDL(t.rest, t.bits)
		t.KMOVW(t.bits, t.tail[i][0])
		t.SHRL(Imm(16), t.bits)
		t.KMOVW(t.bits, t.tail[i][1])
		t.ADDQ(Imm(tileRows), at)
	}
}

// pair copies two rows, a panel at a time.
func (t *columns) pair() {
	to, n, step := t.GP64(), t.load("cols"), t.load("step")
	from := [2]reg.GPVirtual{t.GP64(), t.GP64()}
	t.MOVQ(t.src, from[0])
	t.LEAQ(Mem{Base: t.src, Index: t.below, Scale: 1}, from[1])
	t.MOVQ(t.dst, to)
	t.SHRQ(Imm(5), n)
	t.SHLQ(Imm(2), step)
	move := func(mask func(row, j int) Op) {
		for j := range 2 {
			var x [2]reg.VecVirtual
			for i := range x {
				x[i] = t.ZMM()
				t.PREFETCHT0(Mem{Base: from[i], Index: t.next, Scale: 1, Disp: 64 * j})
				t.VMOVUPS_Z(Mem{Base: from[i], Disp: 64 * j}, mask(i, j), x[i])
			}
			t.s.pairs(x[0], x[1], Mem{Base: to, Disp: j * tileBytes})
		}
	}
	t.TESTQ(n, n)
	t.JEQ(LabelRef("tail"))
	t.Label("panel")
	move(func(row, _ int) Op { return t.present[row] })
	for _, r := range from {
		t.ADDQ(I32(128), r)
	}
	t.ADDQ(step, to)
	t.DECQ(n)
	t.JNE(LabelRef("panel"))
	t.Label("tail")
	t.TESTL(t.rest, t.rest)
	t.JEQ(LabelRef("next"))
	move(func(row, j int) Op { return t.tail[row][j] })
	t.Label("next")
}

// emitTurnTiles writes the copy that makes panels of A of panels of B, and back.
func emitTurnTiles(c *build.Context) {
	c.Function("TurnTiles512")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(data *float32, tiles int)")
	c.Pragma("noescape")
	c.Doc("TurnTiles512 transposes some tiles of 16x16 words in place with AVX-512: a panel of B, of which columns are",
		"rows of A, becomes one of A, and a panel of A one of B.")
	t := tiles{Context: c}
	at, n := t.load("data"), t.load("tiles")
	c.Label("tile")
	r := make([]reg.VecVirtual, 16)
	for i := range r {
		r[i] = c.ZMM()
		c.VMOVUPS(Mem{Base: at, Disp: i * tileRow}, r[i])
	}
	for i, v := range transposed(c, r) {
		c.VMOVUPS(v, Mem{Base: at, Disp: i * tileRow})
	}
	c.ADDQ(I32(tileBytes), at)
	c.DECQ(n)
	c.JNE(LabelRef("tile"))
	c.VZEROUPPER()
	c.RET()
}
