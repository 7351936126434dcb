package main

import (
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitMove writes the copies of movement ops, bit for bit, for one width.
func emitMove(c *build.Context, s simd) {
	l := &lang{c, s, map[string]bool{}}
	l.moveRows("CopyRows", "copies rows of n elements", false)
	l.moveRows("StretchRows", "copies one element for each of rows to n elements", true)
	l.turn()
}

// moveRows writes rows of y: rows of x or, stretched, an element for each.
func (l *lang) moveRows(name, doc string, stretch bool) {
	l.define(name, "func(y, x *float32, ystride, xstride, rows, n int)", doc+" of y.",
		"Strides are the elements from row to row. There is a row and an element.")
	y, x, ystride, xstride, rows, n := l.param("y"), l.param("x"), l.bytes("ystride"), l.bytes("xstride"), l.param("rows"), l.param("n")
	rest := l.GP64()
	l.MOVQ(n, rest)
	l.ANDQ(Imm(uint64(l.lanes-1)), rest)
	mask := l.masks(l.Context, rest, 1)[0]
	left, at, v := l.GP64(), l.GP64(), l.register(l.Context)
	copyOf := func(c cursor) {
		if !stretch {
			v = l.get(x, c)
		}
		l.put(v, y, c)
	}
	l.Label("row")
	if stretch {
		l.broadcast(l.Context, Mem{Base: x}, v)
	}
	l.MOVQ(n, left)
	l.XORQ(at, at)
	for _, step := range []struct {
		name, next string
		unroll     int
	}{{"unrolled", "single", short}, {"single", "rest", 1}} {
		elems := step.unroll * l.lanes
		l.Label(step.name)
		l.CMPQ(left, count(elems))
		l.JLT(LabelRef(step.next))
		for u := range step.unroll {
			copyOf(cursor{at, u * l.lanes, nil})
		}
		l.ADDQ(count(elems), at)
		l.SUBQ(count(elems), left)
		l.JMP(LabelRef(step.name))
	}
	l.Label("rest")
	l.TESTQ(left, left)
	l.JEQ(LabelRef("next"))
	copyOf(cursor{at, 0, mask})
	l.Label("next")
	l.ADDQ(ystride, y)
	l.ADDQ(xstride, x)
	l.DECQ(rows)
	l.JNE(LabelRef("row"))
	l.done()
}

// turn goes through a matrix in square blocks: bands of rows, and along each.
func (l *lang) turn() {
	l.define("Turn", "func(y *float32, ystride int, x *float32, xstride, rows, cols int)",
		"writes the transpose of a matrix x of rows x cols elements: cols rows.",
		"Strides are the elements from row to row. There is a row and a column.")
	y, ystride, x, xstride, rows := l.param("y"), l.bytes("ystride"), l.param("x"), l.bytes("xstride"), l.param("rows")
	for _, full := range []bool{true, false} {
		name := map[bool]string{true: "Full", false: "Part"}[full]
		var mask Op
		l.Label("band" + name)
		if full {
			l.CMPQ(rows, count(l.lanes))
			l.JLT(LabelRef("bandPart"))
		} else {
			l.TESTQ(rows, rows)
			l.JEQ(LabelRef("none"))
			n := l.GP64()
			l.MOVQ(rows, n)
			mask = l.masks(l.Context, n, 1)[0]
		}
		from, to, left := l.GP64(), l.GP64(), l.param("cols")
		l.MOVQ(x, from)
		l.MOVQ(y, to)
		l.Label("block" + name)
		l.block(name, from, xstride, to, ystride, rows, left, mask)
		l.ADDQ(count(4*l.lanes), from)
		l.SUBQ(count(l.lanes), left)
		l.JGT(LabelRef("block" + name))
		if full {
			bytes := l.GP64()
			l.IMUL3Q(Imm(uint64(l.lanes)), xstride, bytes)
			l.ADDQ(bytes, x)
			l.ADDQ(count(4*l.lanes), y)
			l.SUBQ(count(l.lanes), rows)
			l.JMP(LabelRef("bandFull"))
		}
	}
	l.Label("none")
	l.done()
}

// block turns as many rows as there are, and with a mask as many as it has, of as
// many columns as are left, each at most a vector.
func (l *lang) block(name string, from, xstride, to, ystride, rows, left reg.GPVirtual, mask Op) {
	n, lanes := l.GP64(), l.GP64()
	l.MOVQ(U32(uint32(l.lanes)), lanes)
	l.MOVQ(left, n)
	l.CMPQ(n, lanes)
	l.CMOVQGT(lanes, n)
	columns := l.masks(l.Context, n, 1)[0]
	r, at, next := make([]value, l.lanes), l.GP64(), l.GP64()
	l.MOVQ(from, at)
	for i := range r {
		r[i] = l.register(l.Context)
		l.load(l.Context, Mem{Base: at}, columns, r[i], r[i])
		switch {
		case i == len(r)-1:
		case mask == nil:
			l.ADDQ(xstride, at)
		default: // the last row again where there are no more
			l.LEAQ(Mem{Base: at, Index: xstride, Scale: 1}, next)
			l.CMPQ(rows, count(i+1))
			l.CMOVQGT(next, at)
		}
	}
	if l.lanes == 16 {
		r = transposed(l.Context, r)
	} else {
		r = transposed2(l.Context, r)
	}
	for i, v := range r {
		var tmp value
		if mask != nil && l.lanes == 8 {
			tmp = l.register(l.Context)
		}
		l.store(l.Context, v, mask, tmp, Mem{Base: to})
		l.ADDQ(ystride, to)
		if i < len(r)-1 {
			l.CMPQ(left, count(i+1))
			l.JLE(LabelRef("done" + name))
		}
	}
	l.Label("done" + name)
}
