package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// depth is the state of a function that goes through a plane: pixels of a row
// lie in vectors, and a few rows are computed together.
type depth struct {
	*lang
	x, xrs, xrs3, y, yrs reg.GPVirtual
	xAt, yAt, rows       reg.GPVirtual // of the rows that are next
	block                func(rows int, mask Op, label string)
}

// depthRows is how many rows are computed together.
const depthRows = 4

// emitDepth writes the inner kernels of a convolution in which each channel has
// weights of its own.
func emitDepth(c *build.Context, s simd) {
	d := &depth{lang: &lang{c, s, map[string]bool{}}}
	d.define("Depth", "func(y *float32, yrs int, x *float32, xrs int, taps *int, w *float32, k, rows, cols int)",
		fmt.Sprintf("adds up k taps for rows x cols pixels with %s: y[i][j] = sum over t of", s.about),
		"x[taps[t]+i*xrs+j] * w[t]. Rows of y are yrs elements apart. k is at least 1.")
	d.block = d.sums
	d.sweep()
	d.define("DepthGrad", "func(sums, y *float32, yrs int, x *float32, xrs int, taps *int, k, rows, cols int)",
		fmt.Sprintf("adds to vectors sums[t] the products of rows x cols pixels y[i][j] and x[taps[t]+i*xrs+j] with %s:", s.about),
		"those of columns j that are a whole number of vectors apart in the same lane. Rows of y are yrs elements apart. k is",
		"at least 1.")
	d.block = d.products
	d.sweep()
}

// sweep goes down columns a vector wide.
func (d *depth) sweep() {
	cols := d.param("cols")
	d.x, d.xrs, d.y, d.yrs = d.param("x"), d.param("xrs"), d.param("y"), d.param("yrs")
	d.SHLQ(Imm(2), d.xrs)
	d.SHLQ(Imm(2), d.yrs)
	d.xrs3, d.xAt, d.yAt = d.GP64(), d.GP64(), d.GP64()
	d.LEAQ(Mem{Base: d.xrs, Index: d.xrs, Scale: 2}, d.xrs3)
	d.Label("vector")
	d.CMPQ(cols, Imm(uint64(d.lanes)))
	d.JLT(LabelRef("last"))
	d.down("whole", nil)
	d.ADDQ(Imm(uint64(4*d.lanes)), d.x)
	d.ADDQ(Imm(uint64(4*d.lanes)), d.y)
	d.SUBQ(Imm(uint64(d.lanes)), cols)
	d.JMP(LabelRef("vector"))
	d.Label("last")
	d.TESTQ(cols, cols)
	d.JEQ(LabelRef("done"))
	d.down("part", d.masks(d.Context, cols, 1)[0])
	d.Label("done")
	d.done()
}

// down goes through all rows of a column.
func (d *depth) down(label string, mask Op) {
	d.MOVQ(d.x, d.xAt)
	d.MOVQ(d.y, d.yAt)
	d.rows = d.param("rows")
	d.Label(label)
	d.CMPQ(d.rows, Imm(depthRows))
	d.JLT(LabelRef(label + "rest"))
	d.block(depthRows, mask, label+"some")
	d.LEAQ(Mem{Base: d.xAt, Index: d.xrs, Scale: depthRows}, d.xAt)
	d.SUBQ(Imm(depthRows), d.rows)
	d.JMP(LabelRef(label))
	d.Label(label + "rest")
	d.TESTQ(d.rows, d.rows)
	d.JEQ(LabelRef(label + "end"))
	d.block(1, mask, label+"one")
	d.ADDQ(d.xrs, d.xAt)
	d.DECQ(d.rows)
	d.JMP(LabelRef(label + "rest"))
	d.Label(label + "end")
}

// taps is a loop over taps, which do gets with the places of some rows' pixels.
func (d *depth) taps(label string, do func(at []Mem)) {
	taps, k, at := d.param("taps"), d.param("k"), d.GP64()
	d.Label(label)
	d.MOVQ(Mem{Base: taps}, at)
	d.ADDQ(Imm(8), taps)
	d.LEAQ(Mem{Base: d.xAt, Index: at, Scale: 4}, at)
	do([]Mem{{Base: at}, {Base: at, Index: d.xrs, Scale: 1}, {Base: at, Index: d.xrs, Scale: 2}, {Base: at, Index: d.xrs3, Scale: 1}})
	d.DECQ(k)
	d.JNE(LabelRef(label))
}

// madd is sum += a * the pixels at m.
func (d *depth) madd(m Mem, mask Op, a, sum value) {
	if mask == nil {
		d.VFMADD231PS(m, a, sum)
		return
	}
	x := d.register(d.Context)
	d.load(d.Context, m, mask, x, x)
	d.VFMADD231PS(x, a, sum)
}

// sums computes some rows of y.
func (d *depth) sums(rows int, mask Op, label string) {
	var sums []value
	for range rows {
		sums = append(sums, d.zero())
	}
	w, v := d.param("w"), d.register(d.Context)
	d.taps(label, func(at []Mem) {
		d.broadcast(d.Context, Mem{Base: w}, v)
		d.ADDQ(Imm(4), w)
		for r, sum := range sums {
			d.madd(at[r], mask, v, sum)
		}
	})
	for _, sum := range sums {
		d.store(d.Context, sum, mask, v, Mem{Base: d.yAt})
		d.ADDQ(d.yrs, d.yAt)
	}
}

// products adds those of some rows to the sums.
func (d *depth) products(rows int, mask Op, label string) {
	var y []value
	for range rows {
		v := d.register(d.Context)
		d.load(d.Context, Mem{Base: d.yAt}, mask, v, v)
		d.ADDQ(d.yrs, d.yAt)
		y = append(y, v)
	}
	to := d.param("sums")
	d.taps(label, func(at []Mem) {
		sum := d.copy(Mem{Base: to})
		for r, v := range y {
			d.madd(at[r], mask, v, sum)
		}
		d.VMOVUPS(sum, Mem{Base: to})
		d.ADDQ(Imm(uint64(4*d.lanes)), to)
	})
}
