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

// tile is the state of a function that computes one tile of a product.
type tile struct {
	*build.Context
	simd
	c, ldc                 reg.GPVirtual
	a, rows1, rows3, rows5 reg.GPVirtual // multiples of A's row stride
	rows7, acs, b, brs, k  reg.GPVirtual
	rows, cols, add        reg.GPVirtual
	vectors                int
	full                   bool
	masks                  []Op
	sums                   [][]reg.VecVirtual
	bs                     []reg.VecVirtual
	tmp                    reg.VecVirtual
	label                  string
}

// emitGemm writes one function for all numbers of rows up to s.rows and of
// columns up to two vectors. Each has its own loop, and all of them add the
// products of an element in the same order with the same instruction, so that
// its bits do not depend on the tile that it is in.
func emitGemm(ctx *build.Context, s simd) {
	name := "Gemm" + s.suffix
	ctx.Function(name)
	ctx.Attributes(attr.NOSPLIT)
	ctx.SignatureExpr("func(c *float32, ldc int, a *float32, ars, acs int, b *float32, brs, rows, cols, k, add int)")
	ctx.Pragma("noescape")
	ctx.Doc(fmt.Sprintf("%s computes a tile of a product with %s, 1 to %d rows and 1 to %d columns:", name, s.about, s.rows, 2*s.lanes),
		"C = A*B, and with add not 0, C += A*B. Strides are in elements: ldc and brs from",
		"row to row, ars and acs of A from row to row and from column to column. k may be 0.")
	t := &tile{Context: ctx, simd: s}
	t.loadArguments()
	t.dispatch()
}

func (t *tile) loadArguments() {
	get := func(name string) reg.GPVirtual {
		r := t.GP64()
		t.Load(t.Param(name), r)
		return r
	}
	t.c, t.a, t.b = get("c"), get("a"), get("b")
	t.ldc, t.rows1, t.acs, t.brs = get("ldc"), get("ars"), get("acs"), get("brs")
	t.k, t.rows, t.cols = get("k"), get("rows"), get("cols")
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

// dispatch jumps to the loop of the tile's size and writes all loops.
func (t *tile) dispatch() {
	kinds := []struct {
		name    string
		vectors int
		full    bool
	}{{"full", 2, true}, {"wide", 2, false}, {"narrow", 1, false}}
	t.CMPQ(t.cols, Imm(uint64(2*t.lanes)))
	t.JEQ(LabelRef("full"))
	t.CMPQ(t.cols, Imm(uint64(t.lanes)))
	t.JGT(LabelRef("wide"))
	t.JMP(LabelRef("narrow"))
	for _, kind := range kinds {
		t.Label(kind.name)
		t.vectors, t.full = kind.vectors, kind.full
		t.masks = make([]Op, kind.vectors)
		if !kind.full {
			t.masks = t.simd.masks(t.Context, t.cols, kind.vectors)
		}
		for r := t.simd.rows - 1; r >= 1; r-- {
			t.CMPQ(t.rows, Imm(uint64(r)))
			t.JEQ(LabelRef(fmt.Sprint(kind.name, r)))
		}
		for r := t.simd.rows; r >= 1; r-- {
			t.label = fmt.Sprint(kind.name, r)
			t.Label(t.label)
			t.loop(r)
		}
	}
}

// loop computes a tile of some rows and returns.
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
	t.finish(rows)
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
			t.VFMADD231PS(b, x, t.sums[r][v])
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

// finish writes the sums to C, or adds them, and returns.
func (t *tile) finish(rows int) {
	add := t.GP64()
	t.Load(t.Param("add"), add)
	t.TESTQ(add, add)
	t.JEQ(LabelRef(t.label + "write"))
	at := t.GP64()
	t.MOVQ(t.c, at)
	for r := range rows {
		for v, sum := range t.sums[r] {
			t.load(t.Context, Mem{Base: at, Disp: v * t.lanes * 4}, t.masks[v], t.tmp, t.bs[v])
			t.VADDPS(sum, t.bs[v], sum)
		}
		t.ADDQ(t.ldc, at)
	}
	t.Label(t.label + "write")
	for r := range rows {
		for v, sum := range t.sums[r] {
			t.store(t.Context, sum, t.masks[v], t.tmp, Mem{Base: t.c, Disp: v * t.lanes * 4})
		}
		t.ADDQ(t.ldc, t.c)
	}
	t.VZEROUPPER()
	t.RET()
}
