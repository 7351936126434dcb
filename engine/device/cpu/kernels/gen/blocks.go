package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// blocksTile is the state of a function that computes rows of a product whose sums are in
// many short blocks.
type blocksTile struct {
	*build.Context
	simd
	c, ldc, a, rows1, rows3, rows5 reg.GPVirtual
	rows7, b, blocks, cols         reg.GPVirtual
	vectors                        int
	mask                           Op // of the last vector; nil if it is whole
	label                          string
}

// What becomes of a block's sums: bits of the third number of its entry.
const (
	blockAddApart = 1 << iota // add the sums that are kept apart
	blockKeep                 // keep them apart
	blockAdd                  // add C, else
)

// emitGemmBlocks writes a function like [emitGemm]'s, for sums of several short blocks of K. It
// goes through all blocks of a tile before it goes on to the next tile, so that sums stay
// in the first cache between two blocks.
func emitGemmBlocks(ctx *build.Context, s simd) {
	ctx.Function("GemmBlocks" + s.suffix)
	ctx.Attributes(attr.NOSPLIT)
	ctx.SignatureExpr("func(c *float32, ldc int, a *float32, ars int, b *float32, step, rows, cols int, blocks *int, apart *float32)")
	ctx.Pragma("noescape")
	ctx.Doc(
		fmt.Sprintf("GemmBlocks%s computes 1 to %d rows of a product with %s, whose steps are in blocks. Rows of A",
			s.suffix, s.rows, s.about),
		fmt.Sprintf("lie in order, ars elements apart. Panels of %d columns of B are step elements apart and", 2*s.lanes),
		"have the steps of all blocks in order. A block has three numbers: its steps, at least 1; the",
		"elements of A before its first one; and what becomes of its sums, of 1: add those that are kept",
		"apart, 2: keep them apart, 4: add C. Without 2 they become C. A block of 0 steps ends the list.",
		fmt.Sprintf("There is room for %d sums apart.", 2*s.lanes*s.rows))
	t := &blocksTile{Context: ctx, simd: s}
	t.c, t.ldc, t.a, t.rows1, t.cols = t.get("c"), t.get("ldc"), t.get("a"), t.get("ars"), t.get("cols")
	t.b, t.blocks = t.GP64(), t.GP64()
	for _, r := range []reg.GPVirtual{t.ldc, t.rows1} {
		t.SHLQ(Imm(2), r)
	}
	t.rows3, t.rows5 = t.GP64(), t.GP64()
	t.LEAQ(Mem{Base: t.rows1, Index: t.rows1, Scale: 2}, t.rows3)
	t.LEAQ(Mem{Base: t.rows1, Index: t.rows1, Scale: 4}, t.rows5)
	if s.rows > 6 {
		t.rows7 = t.GP64()
		t.LEAQ(Mem{Base: t.rows3, Index: t.rows1, Scale: 4}, t.rows7)
	}
	rows := t.get("rows")
	for r := s.rows - 1; r >= 1; r-- {
		t.CMPQ(rows, Imm(uint64(r)))
		t.JEQ(LabelRef(fmt.Sprint("rows", r)))
	}
	for r := s.rows; r >= 1; r-- {
		t.panels(r)
	}
}

func (t *blocksTile) get(name string) reg.GPVirtual {
	r := t.GP64()
	t.Load(t.Param(name), r)
	return r
}

// panels goes through the panels of some rows: whole ones, and then one of more or of at
// most a vector's columns.
func (t *blocksTile) panels(rows int) {
	name := fmt.Sprint("rows", rows)
	t.Label(name)
	t.CMPQ(t.cols, Imm(uint64(2*t.lanes)))
	t.JLT(LabelRef(name + "edge"))
	t.label, t.vectors, t.mask = name+"full", 2, nil
	t.tile(rows)
	b, step := t.get("b"), t.get("step")
	t.LEAQ(Mem{Base: b, Index: step, Scale: 4}, b)
	t.Store(b, t.Param("b"))
	t.ADDQ(Imm(uint64(8*t.lanes)), t.c)
	t.SUBQ(Imm(uint64(2*t.lanes)), t.cols)
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
		t.mask = t.masks(t.Context, t.cols, kind.vectors)[kind.vectors-1]
		t.tile(rows)
		t.VZEROUPPER()
		t.RET()
	}
}

// maskOf is the mask of a vector of the tile.
func (t *blocksTile) maskOf(v int) Op {
	if v < t.vectors-1 {
		return nil
	}
	return t.mask
}

// tile computes a tile of some rows, block by block.
func (t *blocksTile) tile(rows int) {
	tmp := t.register(t.Context)
	var bs []reg.VecVirtual
	for range t.vectors {
		bs = append(bs, t.register(t.Context))
	}
	var sums [][]reg.VecVirtual
	for range rows {
		var row []reg.VecVirtual
		for range t.vectors {
			row = append(row, t.register(t.Context))
		}
		sums = append(sums, row)
	}
	k, a := t.GP64(), t.GP64()
	t.Load(t.Param("b"), t.b)
	t.Load(t.Param("blocks"), t.blocks)
	t.Label(t.label + "block")
	t.MOVQ(Mem{Base: t.blocks}, k)
	t.TESTQ(k, k)
	t.JEQ(LabelRef(t.label + "end"))
	t.MOVQ(Mem{Base: t.blocks, Disp: 8}, a)
	t.LEAQ(Mem{Base: t.a, Index: a, Scale: 4}, a)
	for _, row := range sums {
		for _, sum := range row {
			t.clear(t.Context, sum)
		}
	}
	t.SUBQ(Imm(unroll), k)
	t.JLT(LabelRef(t.label + "rest"))
	t.Label(t.label + "steps")
	t.steps(unroll, a, tmp, bs, sums)
	t.SUBQ(Imm(unroll), k)
	t.JGE(LabelRef(t.label + "steps"))
	t.Label(t.label + "rest")
	t.ADDQ(Imm(unroll), k)
	t.JEQ(LabelRef(t.label + "finish"))
	t.Label(t.label + "one")
	t.steps(1, a, tmp, bs, sums)
	t.DECQ(k)
	t.JNE(LabelRef(t.label + "one"))
	t.Label(t.label + "finish")
	t.finish(k, a, tmp, bs, sums)
	t.Label(t.label + "next")
	t.ADDQ(Imm(24), t.blocks)
	t.JMP(LabelRef(t.label + "block"))
	t.Label(t.label + "end")
}

// steps adds the products of n steps of k.
func (t *blocksTile) steps(n int, a reg.GPVirtual, tmp reg.VecVirtual, bs []reg.VecVirtual, sums [][]reg.VecVirtual) {
	for i := range n {
		for v, b := range bs {
			t.VMOVUPS(Mem{Base: t.b, Disp: (2*i + v) * t.lanes * 4}, b)
		}
		for r, row := range sums {
			x := tmp
			if t.lanes == 16 {
				x = t.register(t.Context)
			}
			m := t.row(r, a)
			m.Disp = 4 * i
			t.broadcast(t.Context, m, x)
			for v, b := range bs {
				t.madd(t.Context, b, x, row[v])
			}
		}
	}
	t.ADDQ(U32(4*n), a)
	t.ADDQ(U32(8*t.lanes*n), t.b)
}

// row is row r of A.
func (t *blocksTile) row(r int, a reg.GPVirtual) Mem {
	whole := tile{a: a, rows1: t.rows1, rows3: t.rows3, rows5: t.rows5, rows7: t.rows7}
	return whole.row(r)
}

// finish adds a block's sums to others, and keeps them apart or writes them to C.
func (t *blocksTile) finish(then, at reg.GPVirtual, tmp reg.VecVirtual, bs []reg.VecVirtual, sums [][]reg.VecVirtual) {
	each := func(do func(v int, sum reg.VecVirtual, apart Mem)) {
		for r, row := range sums {
			for v, sum := range row {
				do(v, sum, Mem{Base: at, Disp: (r*t.vectors + v) * t.lanes * 4})
			}
		}
	}
	eachOfC := func(do func(v int, sum reg.VecVirtual, c Mem)) {
		t.MOVQ(t.c, at)
		for r, row := range sums {
			for v, sum := range row {
				do(v, sum, Mem{Base: at, Disp: v * t.lanes * 4})
			}
			if r < len(sums)-1 {
				t.ADDQ(t.ldc, at)
			}
		}
	}
	t.MOVQ(Mem{Base: t.blocks, Disp: 16}, then)
	t.TESTQ(U32(blockAddApart|blockKeep), then)
	t.JEQ(LabelRef(t.label + "whole"))
	t.Load(t.Param("apart"), at)
	t.TESTQ(U32(blockAddApart), then)
	t.JEQ(LabelRef(t.label + "keep"))
	each(func(_ int, sum reg.VecVirtual, apart Mem) { t.VADDPS(apart, sum, sum) })
	t.TESTQ(U32(blockKeep), then)
	t.JEQ(LabelRef(t.label + "whole"))
	t.Label(t.label + "keep")
	each(func(_ int, sum reg.VecVirtual, apart Mem) { t.VMOVUPS(sum, apart) })
	t.JMP(LabelRef(t.label + "next"))
	t.Label(t.label + "whole")
	t.TESTQ(U32(blockAdd), then)
	t.JEQ(LabelRef(t.label + "write"))
	eachOfC(func(v int, sum reg.VecVirtual, c Mem) {
		if t.maskOf(v) == nil {
			t.VADDPS(c, sum, sum)
			return
		}
		t.load(t.Context, c, t.maskOf(v), tmp, bs[v])
		t.VADDPS(bs[v], sum, sum)
	})
	t.Label(t.label + "write")
	eachOfC(func(v int, sum reg.VecVirtual, c Mem) { t.store(t.Context, sum, t.maskOf(v), tmp, c) })
}
