package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unroll is how many steps of k one round of the inner loop takes.
const unroll = 4

// tile is the state of a function that computes rows of a product.
type tile struct {
	*build.Context
	simd
	c, ldc                 reg.GPVirtual
	a, rows1, rows3, rows5 reg.GPVirtual // multiples of A's row stride
	rows7, acs, b, brs, k  reg.GPVirtual
	cols                   reg.GPVirtual // that are left
	vectors                int
	masks                  []Op
	sums                   [][]reg.VecVirtual
	bs                     []reg.VecVirtual
	tmp                    reg.VecVirtual
	label                  string
	ahead                  bool // B is fetched ahead of its use
}

// emitGemm writes one function for all numbers of rows up to s.rows and any
// number of columns, which it takes two vectors at a time. Each number of rows
// has its own loops, and all of them add the products of an element in the same
// order with the same instruction, so that its bits do not depend on the tile
// that it is in.
//
// One that fetches ahead reads a B in place, whose rows may be on pages of their own. The hardware does not foresee the
// next one. Packed rows follow each other, and there fetching took 2 % longer.
func emitGemm(ctx *build.Context, s simd, ahead bool) {
	name, what := "Gemm", ""
	if ahead {
		name, what = "GemmAhead", " B is fetched ahead of its use."
	}
	name += s.suffix
	ctx.Function(name)
	ctx.Attributes(attr.NOSPLIT)
	ctx.SignatureExpr("func(c *float32, ldc int, a *float32, ars, acs int, b *float32, brs, step, rows, cols, k, add int)")
	ctx.Pragma("noescape")
	ctx.Doc(fmt.Sprintf("%s computes 1 to %d rows of a product with %s: C = A*B, and with add not 0,", name, s.rows, s.about),
		"C += A*B. Strides are in elements: ldc and brs from row to row, ars and acs of A from",
		fmt.Sprintf("row to row and from column to column, step of B from one panel of %d columns to the", 2*s.lanes),
		"next. k may be 0."+what)
	t := &tile{Context: ctx, simd: s, ahead: ahead}
	t.loadArguments()
	for r := s.rows - 1; r >= 1; r-- {
		t.CMPQ(t.get("rows"), Imm(uint64(r)))
		t.JEQ(LabelRef(fmt.Sprint("rows", r)))
	}
	for r := s.rows; r >= 1; r-- {
		t.panels(r)
	}
}

// get is an argument in a register.
func (t *tile) get(name string) reg.GPVirtual {
	r := t.GP64()
	t.Load(t.Param(name), r)
	return r
}

func (t *tile) loadArguments() {
	t.c, t.a, t.b = t.get("c"), t.get("a"), t.get("b")
	t.ldc, t.rows1, t.acs, t.brs = t.get("ldc"), t.get("ars"), t.get("acs"), t.get("brs")
	t.k, t.cols = t.get("k"), t.get("cols")
	for _, r := range []reg.GPVirtual{t.ldc, t.rows1, t.acs, t.brs} {
		t.SHLQ(Imm(2), r)
	}
	t.rows3, t.rows5 = t.GP64(), t.GP64()
	t.LEAQ(Mem{Base: t.rows1, Index: t.rows1, Scale: 2}, t.rows3)
	t.LEAQ(Mem{Base: t.rows1, Index: t.rows1, Scale: 4}, t.rows5)
	if t.simd.rows > 6 {
		t.rows7 = t.GP64()
		t.LEAQ(Mem{Base: t.rows3, Index: t.rows1, Scale: 4}, t.rows7)
	}
}

// panels goes through the panels of some rows: whole ones, and then one of
// more or of at most a vector's columns.
func (t *tile) panels(rows int) {
	name := fmt.Sprint("rows", rows)
	t.Label(name)
	t.CMPQ(t.cols, Imm(uint64(2*t.lanes)))
	t.JLT(LabelRef(name + "edge"))
	t.label, t.vectors, t.masks = name+"full", 2, make([]Op, 2)
	t.loop(rows)
	t.advance()
	t.JNE(LabelRef(name))
	t.VZEROUPPER()
	t.RET()
	t.Label(name + "edge")
	t.CMPQ(t.cols, Imm(uint64(t.lanes)))
	t.JLE(LabelRef(name + "narrow"))
	for _, kind := range []struct {
		name    string
		vectors int
	}{{"wide", 2}, {"narrow", 1}} {
		t.label, t.vectors = name+kind.name, kind.vectors
		t.Label(t.label)
		t.masks = t.simd.masks(t.Context, t.cols, kind.vectors)
		t.loop(rows)
		t.VZEROUPPER()
		t.RET()
	}
}

// advance goes on to the next panel; the flags tell whether columns are left.
func (t *tile) advance() {
	step := t.get("step")
	t.Load(t.Param("b"), t.b)
	t.LEAQ(Mem{Base: t.b, Index: step, Scale: 4}, t.b)
	t.Store(t.b, t.Param("b"))
	t.Load(t.Param("a"), t.a)
	t.Load(t.Param("k"), t.k)
	t.ADDQ(Imm(uint64(8*t.lanes)), t.c)
	t.SUBQ(Imm(uint64(2*t.lanes)), t.cols)
}

// loop computes a tile of some rows.
func (t *tile) loop(rows int) {
	t.prefetch(rows)
	t.sums, t.bs, t.tmp = nil, nil, t.register(t.Context)
	for range t.vectors {
		t.bs = append(t.bs, t.register(t.Context))
	}
	for range rows {
		var row []reg.VecVirtual
		for range t.vectors {
			v := t.register(t.Context)
			t.clear(t.Context, v)
			row = append(row, v)
		}
		t.sums = append(t.sums, row)
	}
	t.SUBQ(Imm(unroll), t.k)
	t.JLT(LabelRef(t.label + "rest"))
	t.Label(t.label + "steps")
	for range unroll {
		t.step(rows)
	}
	t.SUBQ(Imm(unroll), t.k)
	t.JGE(LabelRef(t.label + "steps"))
	t.Label(t.label + "rest")
	t.ADDQ(Imm(unroll), t.k)
	t.JEQ(LabelRef(t.label + "end"))
	t.Label(t.label + "one")
	t.step(rows)
	t.DECQ(t.k)
	t.JNE(LabelRef(t.label + "one"))
	t.Label(t.label + "end")
	t.finish()
}

// prefetch asks for the lines of C that finish will need.
func (t *tile) prefetch(rows int) {
	at := t.GP64()
	t.MOVQ(t.c, at)
	for r := range rows {
		t.PREFETCHT0(Mem{Base: at})
		if t.vectors*t.lanes > 16 {
			t.PREFETCHT0(Mem{Base: at, Disp: 64})
		}
		if r < rows-1 {
			t.ADDQ(t.ldc, at)
		}
	}
}

// step adds the products of one k.
func (t *tile) step(rows int) {
	for v, b := range t.bs {
		if at := v * t.lanes * 4; t.ahead && at%line == 0 {
			t.PREFETCHT0(Mem{Base: t.b, Index: t.brs, Scale: 8, Disp: at})
		}
		t.load(t.Context, Mem{Base: t.b, Disp: v * t.lanes * 4}, t.masks[v], t.tmp, b)
	}
	t.ADDQ(t.brs, t.b)
	for r := range rows {
		x := t.tmp
		if t.lanes == 16 {
			x = t.register(t.Context)
		}
		t.broadcast(t.Context, t.row(r), x)
		for v, b := range t.bs {
			t.madd(t.Context, b, x, t.sums[r][v])
		}
	}
	t.ADDQ(t.acs, t.a)
}

// row is element r of A's current column.
func (t *tile) row(r int) Mem {
	m := Mem{Base: t.a, Scale: 1}
	switch r {
	case 0:
		return Mem{Base: t.a}
	case 1, 2, 4:
		m.Index, m.Scale = t.rows1, uint8(r)
	case 3:
		m.Index = t.rows3
	case 5:
		m.Index = t.rows5
	case 6:
		m.Index, m.Scale = t.rows3, 2
	case 7:
		m.Index = t.rows7
	}
	return m
}

// finish writes the sums to C, or adds them.
func (t *tile) finish() {
	add, at := t.get("add"), t.GP64()
	t.TESTQ(add, add)
	t.JEQ(LabelRef(t.label + "write"))
	t.MOVQ(t.c, at)
	for _, row := range t.sums {
		for v, sum := range row {
			t.load(t.Context, Mem{Base: at, Disp: v * t.lanes * 4}, t.masks[v], t.tmp, t.bs[v])
			t.VADDPS(sum, t.bs[v], sum)
		}
		t.ADDQ(t.ldc, at)
	}
	t.Label(t.label + "write")
	t.MOVQ(t.c, at)
	for _, row := range t.sums {
		for v, sum := range row {
			t.store(t.Context, sum, t.masks[v], t.tmp, Mem{Base: at, Disp: v * t.lanes * 4})
		}
		t.ADDQ(t.ldc, at)
	}
}
