package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What attention in pairs of bfloat16 does to rows of queries, keys, values and scores. A
// halved row has two numbers in a word.

func emitAttendPairs(c *build.Context) {
	l := &lang{Context: c, simd: avx512(), constants: map[string]bool{}}
	l.halveRows()
	l.spreadHalves()
	l.strips()
	l.roundedDots()
}

// bfloats is the numbers of low and then of high, as bfloat16.
func (l *lang) bfloats(low, high value) value {
	v := l.ZMM()
	narrow(l.Context, high, low, v)
	return v
}

// words is a constant of 32 words of 16 bits, in a register.
func (l *lang) words(name string, word func(i int) int) value {
	l.StaticGlobal(name)
	l.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 32 {
		l.AddDatum(2*i, U16(word(i)))
	}
	return l.in(NewDataAddr(Symbol{Name: name, Static: true}, 0))
}

func (l *lang) halveRows() {
	l.define("HalveRows", "func(dst *float32, drs int, src *float32, srs, cols, rows int) float32",
		"rounds rows of cols numbers to bfloat16 with AVX512_BF16 and writes two to a",
		"word, and zeros up to a whole number of 16 words. Strides are from row to row. dst may be src. It is 0 if all",
		"rounded numbers are finite, and NaN if not. There is a row, and a column.")
	dst, drs, src, srs, rows := l.param("dst"), l.bytes("drs"), l.param("src"), l.bytes("srs"), l.param("rows")
	sums, zero := []value{l.zero(), l.zero()}, l.zero()
	x, to, n := l.GP64(), l.GP64(), l.GP64()
	body := func(a, b value) {
		z, low := l.bfloats(a, b), l.ZMM()
		l.VMOVUPS(z, Mem{Base: to})
		l.VPSLLD(Imm(16), z, low)
		l.VFMADD231PS(zero, z, sums[0])
		l.VFMADD231PS(zero, low, sums[1])
	}
	l.Label("row")
	l.MOVQ(src, x)
	l.MOVQ(dst, to)
	l.Load(l.Param("cols"), n)
	l.CMPQ(n, Imm(32))
	l.JLT(LabelRef("rest"))
	l.Label("whole")
	body(l.in(Mem{Base: x}), l.in(Mem{Base: x, Disp: 64}))
	l.ADDQ(Imm(128), x)
	l.ADDQ(Imm(64), to)
	l.SUBQ(Imm(32), n)
	l.CMPQ(n, Imm(32))
	l.JGE(LabelRef("whole"))
	l.Label("rest")
	l.TESTQ(n, n)
	l.JEQ(LabelRef("next"))
	bits, masks := l.GP32(), [2]reg.OpmaskVirtual{l.K(), l.K()}
	l.MOVL(U32(0xffffffff), bits)
	l.BZHIL(n.As32(), bits, bits)
	l.KMOVW(bits, masks[0])
	l.SHRL(Imm(16), bits)
	l.KMOVW(bits, masks[1])
	var parts [2]value
	for i := range parts {
		parts[i] = l.ZMM()
		l.VMOVUPS_Z(Mem{Base: x, Disp: 64 * i}, masks[i], parts[i])
	}
	body(parts[0], parts[1])
	l.Label("next")
	l.ADDQ(srs, src)
	l.ADDQ(drs, dst)
	l.DECQ(rows)
	l.JNE(LabelRef("row"))
	l.VADDPS(sums[1], sums[0], sums[0])
	l.Store(l.across(sums[0], l.VADDPS, nil), l.ReturnIndex(0))
	l.done()
}

func (l *lang) spreadHalves() {
	l.define("SpreadHalves", "func(dst *float32, step int, src *float32, srs, cols, k int)",
		"copies k halved rows of cols numbers, srs words apart, to panels of 32 columns, step words",
		"apart, with AVX-512. Rows 2i and 2i+1 become row i of pairs; what is missing of the last one is zero.",
		"There is a row, and a column.")
	dst, step, src, srs, k := l.param("dst"), l.bytes("step"), l.param("src"), l.bytes("srs"), l.param("k")
	first := l.words("pairsOfFirst", func(i int) int { return i/2 + i%2*32 })
	second := l.words("pairsOfSecond", func(i int) int { return 16 + i/2 + i%2*32 })
	x, to, left := l.GP64(), l.GP64(), l.GP64()
	panels := func(name string, other func() value) {
		l.MOVQ(src, x)
		l.MOVQ(dst, to)
		l.Load(l.Param("cols"), left)
		l.Label(name)
		a, b, c := l.copy(Mem{Base: x}), l.copy(Mem{Base: x}), other()
		l.VPERMT2W(c, first, a)
		l.VPERMT2W(c, second, b)
		l.VMOVUPS(a, Mem{Base: to})
		l.VMOVUPS(b, Mem{Base: to, Disp: 64})
		l.ADDQ(Imm(64), x)
		l.ADDQ(step, to)
		l.SUBQ(Imm(32), left)
		l.JGT(LabelRef(name))
	}
	l.Label("pair")
	l.CMPQ(k, Imm(2))
	l.JLT(LabelRef("last"))
	panels("panel", func() value { return l.copy(Mem{Base: x, Index: srs, Scale: 1}) })
	l.ADDQ(Imm(128), dst)
	l.LEAQ(Mem{Base: src, Index: srs, Scale: 2}, src)
	l.SUBQ(Imm(2), k)
	l.JGT(LabelRef("pair"))
	l.done()
	l.Label("last")
	panels("lastPanel", l.zero)
	l.done()
}

func (l *lang) strips() {
	l.define("Strips", "func(dst *float32, step int, src *float32, srs, cols, pairs int)",
		"rounds pairs of rows to bfloat16 with AVX512_BF16 and copies them to strips of 16 columns,",
		"step words apart: rows 2i and 2i+1 become row i of a strip. cols is rounded up to whole",
		"strips, which rows have room for. There is a pair, and a column.")
	dst, step, src, srs, pairs := l.param("dst"), l.bytes("step"), l.param("src"), l.bytes("srs"), l.param("pairs")
	order := l.words("pairsOfRow", func(i int) int { return i/2 + i%2*16 })
	x, to, left := l.GP64(), l.GP64(), l.GP64()
	l.Label("pair")
	l.MOVQ(src, x)
	l.MOVQ(dst, to)
	l.Load(l.Param("cols"), left)
	l.Label("strip")
	z := l.bfloats(l.in(Mem{Base: x}), l.in(Mem{Base: x, Index: srs, Scale: 1}))
	l.VPERMW(z, order, z)
	l.VMOVUPS(z, Mem{Base: to})
	l.ADDQ(Imm(64), x)
	l.ADDQ(step, to)
	l.SUBQ(Imm(16), left)
	l.JGT(LabelRef("strip"))
	l.ADDQ(Imm(64), dst)
	l.LEAQ(Mem{Base: src, Index: srs, Scale: 2}, src)
	l.DECQ(pairs)
	l.JNE(LabelRef("pair"))
	l.done()
}

func (l *lang) roundedDots() {
	l.define("RoundedDots", "func(out *float32, step int, x *float32, xstride int, y *float32, ystride, rows, n int)",
		"writes the dot product of each row of x, rounded to bfloat16 with AVX512_BF16, with that of y to",
		"elements of out that are step apart. Strides are from row to row. There is a row.")
	out, step, x, y, rows := l.param("out"), l.bytes("step"), l.param("x"), l.param("y"), l.param("rows")
	xstride, ystride := l.bytes("xstride"), l.bytes("ystride")
	l.Label("row")
	sums := []value{l.zero(), l.zero()}
	l.loop(l.param("n"), 2, func(u int, c cursor) {
		v := l.in(l.get(x, c))
		z, wide := l.bfloats(v, v), l.ZMM()
		l.VPMOVZXWD(z.AsY(), wide)
		l.VPSLLD(Imm(16), wide, wide)
		l.VFMADD231PS(l.get(y, c), wide, sums[u])
	})
	l.VADDPS(sums[1], sums[0], sums[0])
	l.VMOVSS(l.across(sums[0], l.VADDPS, nil), Mem{Base: out})
	l.ADDQ(step, out)
	l.ADDQ(xstride, x)
	l.ADDQ(ystride, y)
	l.DECQ(rows)
	l.JNE(LabelRef("row"))
	l.done()
}
