package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What attention does to rows of scores: they are taken some at a time, so
// that the latencies of one row hide behind the others. Of row r, n+r elements
// count; the others up to width, a multiple of 16, are masked.

// attention is the state of a function over rows of scores.
type attention struct {
	*lang
	matrices    []reg.GPVirtual
	ld, width   reg.GPVirtual // bytes
	n, rows     reg.GPVirtual
	together    int // rows
	counts      []value
	inside, end reg.GPVirtual // bytes up to which all elements count, and from which none do
}

// scores begins a function over rows of some matrices.
func (l *lang) scores(together int, matrices ...string) *attention {
	a := &attention{lang: l, together: together, inside: l.GP64(), end: l.GP64()}
	for _, m := range matrices {
		a.matrices = append(a.matrices, l.param(m))
	}
	a.ld, a.width, a.n, a.rows = l.bytes("ld"), l.bytes("width"), l.param("n"), l.param("rows")
	return a
}

// eachRows goes through the rows. Rows behind the last one are computed like the
// others, in memory that has room for them.
func (a *attention) eachRows(body func(at [][]reg.GPVirtual)) {
	a.Label("rows")
	a.bounds()
	a.counts = nil
	at := make([][]reg.GPVirtual, a.together)
	for r := range at {
		a.counts = append(a.counts, a.number(a.n))
		a.INCQ(a.n)
		for _, m := range a.matrices {
			row := a.GP64()
			a.MOVQ(m, row)
			at[r] = append(at[r], row)
			a.ADDQ(a.ld, m)
		}
	}
	body(at)
	a.SUBQ(Imm(uint64(a.together)), a.rows)
	a.JGT(LabelRef("rows"))
	a.done()
}

// bounds finds what all rows or none of those together have, in whole vectors, and
// at most the width.
func (a *attention) bounds() {
	for _, b := range []struct {
		at   reg.GPVirtual
		more int
	}{{a.inside, 0}, {a.end, a.together - 1 + a.lanes - 1}} {
		a.LEAQ(Mem{Base: a.n, Disp: b.more}, b.at)
		a.ANDQ(I32(int32(-a.lanes)), b.at)
		a.SHLQ(Imm(2), b.at)
		a.CMPQ(b.at, a.width)
		a.CMOVQGT(a.width, b.at)
	}
}

// number is a whole number as float32 in all lanes.
func (l *lang) number(n reg.GPVirtual) value {
	v := l.register(l.Context)
	if l.lanes == 16 {
		l.VPBROADCASTD(n.As32(), v)
	} else {
		x := l.XMM()
		l.VMOVD(n.As32(), x)
		l.VPBROADCASTD(x, v)
	}
	l.VCVTDQ2PS(v, v)
	return v
}

// eachVector goes through the elements that count. body gets the bytes from the start,
// and a function that clears masked lanes of a row, or sets them to another number. It
// returns the end.
func (a *attention) eachVector(name string, body func(i reg.GPVirtual, only func(r int, v value, other Op) value)) reg.GPVirtual {
	i, at := a.GP64(), a.GP64()
	a.XORQ(i, i)
	step := func() { a.ADDQ(Imm(uint64(4*a.lanes)), i) }
	a.Label(name)
	a.CMPQ(i, a.inside)
	a.JGE(LabelRef(name + "Edge"))
	body(i, func(_ int, v value, _ Op) value { return v })
	step()
	a.JMP(LabelRef(name))
	a.Label(name + "Edge")
	a.MOVQ(i, at)
	a.SHRQ(Imm(2), at)
	index := a.number(at)
	a.VADDPS(a.ascending(), index, index)
	a.Label(name + "Masked")
	a.CMPQ(i, a.end)
	a.JGE(LabelRef(name + "Done"))
	body(i, func(r int, v value, other Op) value { return a.keep(index, less, a.counts[r], v, other) })
	a.VADDPS(a.k(float64(a.lanes)), index, index)
	step()
	a.JMP(LabelRef(name + "Masked"))
	a.Label(name + "Done")
	return i
}

// clearFrom writes zeros from byte i to the width.
func (a *attention) clearFrom(i reg.GPVirtual, at [][]reg.GPVirtual) {
	zero := a.zero()
	a.Label("clear")
	a.CMPQ(i, a.width)
	a.JGE(LabelRef("cleared"))
	for _, row := range at {
		for _, m := range row {
			a.VMOVUPS(zero, byteOf(m, i))
		}
	}
	a.ADDQ(Imm(uint64(4*a.lanes)), i)
	a.JMP(LabelRef("clear"))
	a.Label("cleared")
}

// ascending is 0, 1, 2, ... in memory.
func (l *lang) ascending() Mem {
	const name = "ascending"
	if !l.constants[name] {
		l.constants[name] = true
		l.StaticGlobal(name)
		l.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range 16 {
			l.AddDatum(4*i, U32(math.Float32bits(float32(i))))
		}
	}
	return NewDataAddr(Symbol{Name: name, Static: true}, 0)
}

// byteOf is the vector at a row's byte i.
func byteOf(row, i reg.GPVirtual) Mem { return Mem{Base: row, Index: i, Scale: 1} }

func (l *lang) attend() {
	l.define("Attend", "func(s *float32, ld, rows, n, width int, scale float32, most, sums *float32)",
		"turns rows of scores, ld elements apart, into softmax(s*scale). Of row r, n+r elements",
		"count, the others up to width, a multiple of 16, become 0. most and sums get each row's",
		"largest scaled score and sum of exponentials. Rows are computed in fours, so all have room",
		"for a multiple of four.")
	together := 4
	if l.lanes == 8 {
		together = 2
	}
	a := l.scores(together, "s")
	scale, most, totals := l.spread("scale"), l.param("most"), l.param("sums")
	lowest := l.bits(0xff800000)
	a.eachRows(func(at [][]reg.GPVirtual) {
		best, sums := make([]value, together), make([]value, together)
		for r := range best {
			best[r] = l.in(lowest)
		}
		a.eachVector("max", func(i reg.GPVirtual, only func(int, value, Op) value) {
			for r := range best { // the second source where a score is NaN
				l.VMAXPS(best[r], only(r, l.in(byteOf(at[r][0], i)), lowest), best[r])
			}
		})
		all := l.mul(l.everyRow(best, l.VMAXPS), scale)
		l.storeRows(all, together, most)
		for r := range best {
			best[r], sums[r] = l.ofRow(all, r), l.zero()
		}
		a.eachVector("exp", func(i reg.GPVirtual, only func(int, value, Op) value) {
			for r, shift := range best {
				m := byteOf(at[r][0], i)
				e := only(r, l.expOrZero(l.fms(l.in(m), scale, shift)), nil)
				l.VADDPS(e, sums[r], sums[r])
				l.VMOVUPS(e, m)
			}
		})
		all = l.everyRow(sums, l.VADDPS)
		l.storeRows(all, together, totals)
		all = l.div(l.in(l.k(1)), all)
		for r := range sums {
			sums[r] = l.ofRow(all, r)
		}
		end := a.eachVector("scale", func(i reg.GPVirtual, only func(int, value, Op) value) {
			for r, inverse := range sums {
				m := byteOf(at[r][0], i)
				l.VMOVUPS(only(r, l.mul(inverse, m), nil), m)
			}
		})
		a.clearFrom(end, at)
		l.ADDQ(Imm(uint64(4*together)), most)
		l.ADDQ(Imm(uint64(4*together)), totals)
	})
}

// everyRow combines the lanes of each of four rows, or two: lane r of each four
// gets the result of row r.
func (l *lang) everyRow(rows []value, combine func(ops ...Op)) value {
	pairs := func(a, b value, low, high func(ops ...Op)) value {
		v, w := l.register(l.Context), l.register(l.Context)
		low(b, a, v)
		high(b, a, w)
		combine(w, v, v)
		return v
	}
	first := pairs(rows[0], rows[1], l.VUNPCKLPS, l.VUNPCKHPS)
	second := first
	if len(rows) == 4 {
		second = pairs(rows[2], rows[3], l.VUNPCKLPS, l.VUNPCKHPS)
	}
	all, turned := pairs(first, second, l.VUNPCKLPD, l.VUNPCKHPD), l.register(l.Context)
	if l.lanes == 8 {
		l.VPERM2F128(Imm(1), all, all, turned)
		combine(turned, all, all)
		return all
	}
	for _, order := range []uint64{0x4e, 0xb1} {
		l.VSHUFF32X4(Imm(order), all, all, turned)
		combine(turned, all, all)
	}
	return all
}

// storeRows stores the results of some rows.
func (l *lang) storeRows(all value, rows int, to reg.GPVirtual) {
	if rows == 4 {
		l.VMOVUPS(all.AsX(), Mem{Base: to})
		return
	}
	l.VMOVLPS(all.AsX(), Mem{Base: to})
}

// ofRow is row r's result in all lanes.
func (l *lang) ofRow(all value, r int) value {
	v := l.register(l.Context)
	l.VPERMILPS(Imm(uint64(r*0x55)), all, v)
	return v
}

func (l *lang) attendGrad() {
	l.define("AttendGrad", "func(p, d *float32, ld, rows, n, width int, scale float32, stats *float32)",
		"turns rows of scores p, ld elements apart, into probabilities exp(p*scale-lse), and d, the",
		"gradient of these, into that of the scores, p*(d-delta)*scale. Of row r, n+r elements count,",
		"the others up to width, a multiple of 16, become 0. stats has each row's lse and delta.")
	a := l.scores(1, "p", "d")
	scale, stats := l.spread("scale"), l.param("stats")
	a.eachRows(func(at [][]reg.GPVirtual) {
		lse, delta := l.register(l.Context), l.register(l.Context)
		l.broadcast(l.Context, Mem{Base: stats}, lse)
		l.broadcast(l.Context, Mem{Base: stats, Disp: 4}, delta)
		end := a.eachVector("exp", func(i reg.GPVirtual, only func(int, value, Op) value) {
			p, d := byteOf(at[0][0], i), byteOf(at[0][1], i)
			e := only(0, l.expOrZero(l.fms(l.in(p), scale, lse)), nil)
			l.VMOVUPS(e, p)
			l.VMOVUPS(only(0, l.mul(l.mul(e, l.sub(l.in(d), delta)), scale), nil), d)
		})
		a.clearFrom(end, at)
		l.ADDQ(Imm(8), stats)
	})
}

func (l *lang) rowDots() {
	l.define("RowDots", "func(out *float32, step int, x *float32, xstride int, y *float32, ystride, rows, n int)",
		"writes the dot product of each row of x with that of y to elements of out that are step",
		"apart. Strides are in elements, from row to row. There is a row.")
	out, step, x, y, rows := l.param("out"), l.bytes("step"), l.param("x"), l.param("y"), l.param("rows")
	xstride, ystride := l.bytes("xstride"), l.bytes("ystride")
	l.Label("row")
	sums := []value{l.zero(), l.zero()}
	l.loop(l.param("n"), 2, func(u int, c cursor) { l.VFMADD231PS(l.get(x, c), l.get(y, c), sums[u]) })
	l.VADDPS(sums[1], sums[0], sums[0])
	l.VMOVSS(l.across(sums[0], l.VADDPS, nil), Mem{Base: out})
	l.ADDQ(step, out)
	l.ADDQ(xstride, x)
	l.ADDQ(ystride, y)
	l.DECQ(rows)
	l.JNE(LabelRef("row"))
	l.done()
}

func (l *lang) zeros() {
	l.define("Zeros", "func(x *float32, stride, rows, n int) float32",
		"is the sum of 0*x over rows that are stride elements apart: 0 if all are finite, and NaN",
		"if not. There is a row.")
	x, stride, rows := l.param("x"), l.bytes("stride"), l.param("rows")
	sums, zero := []value{l.zero(), l.zero()}, l.zero()
	l.Label("row")
	l.loop(l.param("n"), 2, func(u int, c cursor) { l.VFMADD231PS(zero, l.get(x, c), sums[u]) })
	l.ADDQ(stride, x)
	l.DECQ(rows)
	l.JNE(LabelRef("row"))
	l.VADDPS(sums[1], sums[0], sums[0])
	l.Store(l.across(sums[0], l.VADDPS, nil), l.ReturnIndex(0))
	l.done()
}
