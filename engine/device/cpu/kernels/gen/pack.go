package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitPack writes the copies that gather operands: those that spread rows of B
// over panels or turn columns of B into rows of a panel, and the one that
// gathers a few rows of a transposed A.
func emitPack(c *build.Context) {
	emitSpread(c, avx512())
	emitSpread(c, avx2())
	emitTranspose512(c)
	emitTranspose2(c)
	emitGather2(c)
	emitPad(c)
	emitUnzip512(c)
	emitZip512(c)
	emitUnzip2(c)
	emitZip2(c)
}

// emitPad writes the copy of an image's rows with zeros around them. It goes
// down columns, a vector wide, so that masks are made once.
func emitPad(c *build.Context) {
	c.Function("PadRows512")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, pitch int, src *float32, srs, cols, rows, left int)")
	c.Pragma("noescape")
	c.Doc("PadRows512 copies rows of cols numbers, srs elements apart, to rows of pitch numbers with AVX-512: left zeros,",
		"the numbers, and zeros again. rows is at least 1.")
	get := func(name string) reg.GPVirtual {
		r := c.GP64()
		c.Load(c.Param(name), r)
		return r
	}
	dst, pitch, src, srs := get("dst"), get("pitch"), get("src"), get("srs")
	before, end, rest := get("left"), get("cols"), c.GP64() // columns from the vector's first on
	c.ADDQ(before, end)
	c.MOVQ(pitch, rest)
	c.SHLQ(Imm(2), pitch)
	c.SHLQ(Imm(2), srs)
	back := c.GP64()
	c.MOVQ(before, back)
	c.SHLQ(Imm(2), back)
	c.SUBQ(back, src)
	zero, sixteen, ones := c.GP64(), c.GP64(), c.GP32()
	c.XORQ(zero, zero)
	c.MOVQ(I32(16), sixteen)
	c.MOVL(U32(0xffff), ones)
	lanesBelow := func(n reg.GPVirtual) reg.GPVirtual { // a mask of the first n lanes
		at, bits := c.GP64(), c.GP32()
		c.MOVQ(n, at)
		c.TESTQ(at, at)
		c.CMOVQLT(zero, at)
		c.CMPQ(at, sixteen)
		c.CMOVQGT(sixteen, at)
		c.BZHIL(at.As32(), ones, bits)
		return bits
	}
	read, written := c.K(), c.K()
	c.Label("columns")
	outside, inside := lanesBelow(before), lanesBelow(end)
	c.XORL(outside, inside)
	c.KMOVW(inside, read)
	c.KMOVW(lanesBelow(rest), written)
	from, to, rows, z := c.GP64(), c.GP64(), get("rows"), c.ZMM()
	c.MOVQ(src, from)
	c.MOVQ(dst, to)
	c.Label("row")
	c.VMOVUPS_Z(Mem{Base: from}, read, z)
	c.VMOVUPS(z, written, Mem{Base: to})
	c.ADDQ(srs, from)
	c.ADDQ(pitch, to)
	c.DECQ(rows)
	c.JNE(LabelRef("row"))
	c.ADDQ(Imm(64), src)
	c.ADDQ(Imm(64), dst)
	c.SUBQ(sixteen, before)
	c.SUBQ(sixteen, end)
	c.SUBQ(sixteen, rest)
	c.JGT(LabelRef("columns"))
	c.VZEROUPPER()
	c.RET()
}

// begin declares a transposing copy of as many rows as a vector has lanes.
// It returns the pointers and strides in bytes.
func begin(c *build.Context, name, about string, lanes int) (dst, drs, src, srs, k reg.GPVirtual) {
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, drs int, src *float32, srs, k int)")
	c.Pragma("noescape")
	c.Doc(fmt.Sprintf("%s writes the transpose of a matrix of %d rows and k columns with %s: row i of dst", name, lanes, about),
		"is column i of src. drs and srs are the elements from row to row. Behind the k rows,",
		fmt.Sprintf("dst is written up to a whole number of %d.", lanes))
	get := func(name string) reg.GPVirtual {
		r := c.GP64()
		c.Load(c.Param(name), r)
		return r
	}
	dst, drs, src, srs, k = get("dst"), get("drs"), get("src"), get("srs"), get("k")
	c.SHLQ(Imm(2), drs)
	c.SHLQ(Imm(2), srs)
	return dst, drs, src, srs, k
}

// rowsOf walks n rows from base on: it returns the address of each in turn.
func rowsOf(c *build.Context, base, stride reg.GPVirtual) func() Mem {
	at := c.GP64()
	c.MOVQ(base, at)
	first := true
	return func() Mem {
		if !first {
			c.ADDQ(stride, at)
		}
		first = false
		return Mem{Base: at}
	}
}

// emitTranspose512 moves blocks of 16x16: pairs of rows are interleaved, then
// pairs of pairs, then the four quarters of the registers change places.
func emitTranspose512(c *build.Context) {
	dst, drs, src, srs, k := begin(c, "Transpose512", "AVX-512", 16)
	mask, ones, bits := c.K(), c.GP32(), c.GP32()
	c.MOVL(U32(0xffff), ones)
	c.KMOVW(ones, mask)
	c.Label("block")
	c.CMPQ(k, Imm(16))
	c.JGE(LabelRef("whole"))
	c.BZHIL(k.As32(), ones, bits)
	c.KMOVW(bits, mask)
	c.Label("whole")
	r := make([]reg.VecVirtual, 16)
	next := rowsOf(c, src, srs)
	for i := range r {
		r[i] = c.ZMM()
		c.VMOVUPS_Z(next(), mask, r[i])
	}
	for _, v := range transposed(c, r) {
		c.VMOVUPS(v, Mem{Base: dst})
		c.ADDQ(drs, dst)
	}
	c.ADDQ(Imm(64), src)
	c.SUBQ(Imm(16), k)
	c.JGT(LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}

// transposed are the rows of a transposed block of 16x16.
func transposed(c *build.Context, r []reg.VecVirtual) []reg.VecVirtual {
	r = interleave(c, r, func() reg.VecVirtual { return c.ZMM() })
	out := make([]reg.VecVirtual, 16)
	for i := range 4 {
		mix := func(pattern uint64, x, y reg.VecVirtual) reg.VecVirtual {
			z := c.ZMM()
			c.VSHUFF32X4(Imm(pattern), y, x, z)
			return z
		}
		even0, even1 := mix(0x88, r[i], r[4+i]), mix(0x88, r[8+i], r[12+i])
		odd0, odd1 := mix(0xdd, r[i], r[4+i]), mix(0xdd, r[8+i], r[12+i])
		out[i], out[8+i] = mix(0x88, even0, even1), mix(0xdd, even0, even1)
		out[4+i], out[12+i] = mix(0x88, odd0, odd1), mix(0xdd, odd0, odd1)
	}
	return out
}

// emitTranspose2 moves blocks of 8x8 in the same way.
func emitTranspose2(c *build.Context) {
	dst, drs, src, srs, k := begin(c, "Transpose2", "AVX2", 8)
	mask := c.YMM()
	table, at, n := maskTable(c), c.GP64(), c.GP64()
	c.LEAQ(table, at)
	c.VMOVUPS(Mem{Base: at}, mask)
	c.Label("block")
	c.CMPQ(k, Imm(8))
	c.JGE(LabelRef("whole"))
	c.MOVQ(k, n)
	c.NEGQ(n)
	c.VMOVUPS(Mem{Base: at, Index: n, Scale: 4, Disp: maskZeros}, mask)
	c.Label("whole")
	r := make([]reg.VecVirtual, 8)
	next := rowsOf(c, src, srs)
	for i := range r {
		r[i] = c.YMM()
		c.VMASKMOVPS(next(), mask, r[i])
	}
	for _, v := range transposed2(c, r) {
		c.VMOVUPS(v, Mem{Base: dst})
		c.ADDQ(drs, dst)
	}
	c.ADDQ(Imm(32), src)
	c.SUBQ(Imm(8), k)
	c.JGT(LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}

// transposed2 are the rows of a transposed block of 8x8.
func transposed2(c *build.Context, r []reg.VecVirtual) []reg.VecVirtual {
	r = interleave(c, r, func() reg.VecVirtual { return c.YMM() })
	out := make([]reg.VecVirtual, 8)
	for i := range 4 {
		out[i], out[4+i] = c.YMM(), c.YMM()
		c.VPERM2F128(Imm(0x20), r[4+i], r[i], out[i])
		c.VPERM2F128(Imm(0x31), r[4+i], r[i], out[4+i])
	}
	return out
}

// interleave turns each four rows g..g+3 into four registers, of which number
// g+i holds, in its quarter q, column 4*q+i of the four rows.
func interleave(c *build.Context, r []reg.VecVirtual, fresh func() reg.VecVirtual) []reg.VecVirtual {
	pairs := make([]reg.VecVirtual, len(r))
	for i := 0; i < len(r); i += 2 {
		pairs[i], pairs[i+1] = fresh(), fresh()
		c.VUNPCKLPS(r[i+1], r[i], pairs[i])
		c.VUNPCKHPS(r[i+1], r[i], pairs[i+1])
	}
	fours := make([]reg.VecVirtual, len(r))
	for i := 0; i < len(r); i += 4 {
		for j := range 4 {
			fours[i+j] = fresh()
		}
		c.VUNPCKLPD(pairs[i+2], pairs[i], fours[i])
		c.VUNPCKHPD(pairs[i+2], pairs[i], fours[i+1])
		c.VUNPCKLPD(pairs[i+3], pairs[i+1], fours[i+2])
		c.VUNPCKHPD(pairs[i+3], pairs[i+1], fours[i+3])
	}
	return fours
}

// emitGather2 takes four columns a round, so that their loads overlap.
func emitGather2(c *build.Context) {
	c.Function("Gather2")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, src *float32, cs, rows, k int)")
	c.Pragma("noescape")
	c.Doc("Gather2 copies k columns of 1 to 8 rows, which lie in order, with AVX2: row i of column j",
		"is src[j*cs+i] and becomes dst[j*8+i]. Rows up to 8 that are missing become zeros.")
	get := func(name string) reg.GPVirtual {
		r := c.GP64()
		c.Load(c.Param(name), r)
		return r
	}
	dst, src, cs, rows, k := get("dst"), get("src"), get("cs"), get("rows"), get("k")
	c.SHLQ(Imm(2), cs)
	mask, table := c.YMM(), c.GP64()
	c.LEAQ(maskTable(c), table)
	c.NEGQ(rows)
	c.VMOVUPS(Mem{Base: table, Index: rows, Scale: 4, Disp: maskZeros}, mask)
	move := func(n int) { gather(c, dst, src, cs, k, mask, n) }
	c.SUBQ(Imm(4), k)
	c.JLT(LabelRef("rest"))
	c.Label("four")
	move(4)
	c.JGE(LabelRef("four"))
	c.Label("rest")
	c.ADDQ(Imm(4), k)
	c.JEQ(LabelRef("end"))
	c.Label("one")
	move(1)
	c.JNE(LabelRef("one"))
	c.Label("end")
	c.VZEROUPPER()
	c.RET()
}

// gather copies n columns and counts them off k.
func gather(c *build.Context, dst, src, cs, k reg.GPVirtual, mask reg.VecVirtual, n int) {
	for i := range n {
		v := c.YMM()
		c.VMASKMOVPS(Mem{Base: src}, mask, v)
		c.ADDQ(cs, src)
		c.VMOVUPS(v, Mem{Base: dst, Disp: 32 * i})
	}
	c.ADDQ(Imm(uint64(32*n)), dst)
	c.SUBQ(Imm(uint64(n)), k)
}

// ahead is how many rows early a row is prefetched: the piece of a row that goes into a
// panel is too short for the hardware to foresee the next one.
const ahead = 4

// spread is the state of a function that copies rows to panels.
type spread struct {
	*build.Context
	simd
	dst, step, src, srs, k reg.GPVirtual
	panels, tail           reg.GPVirtual // whole panels, and columns in the last
	from, to, next, count  reg.GPVirtual
}

func emitSpread(c *build.Context, s simd) {
	c.Function("Spread" + s.suffix)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, step int, src *float32, srs, cols, k int)")
	c.Pragma("noescape")
	width := 2 * s.lanes
	c.Doc(fmt.Sprintf("Spread%s copies k rows of cols columns, srs elements apart, to panels of %d columns", s.suffix, width),
		fmt.Sprintf("with %s. Panels are step elements apart. What is missing in the last one", s.about),
		"becomes zeros.")
	t := &spread{Context: c, simd: s}
	get := func(name string) reg.GPVirtual {
		r := c.GP64()
		c.Load(c.Param(name), r)
		return r
	}
	t.dst, t.step, t.src, t.srs, t.k, t.panels = get("dst"), get("step"), get("src"), get("srs"), get("k"), get("cols")
	c.SHLQ(Imm(2), t.step)
	c.SHLQ(Imm(2), t.srs)
	t.tail = c.GP64()
	c.MOVQ(t.panels, t.tail)
	c.ANDQ(Imm(uint64(width-1)), t.tail)
	shift := uint64(5)
	if s.lanes == 8 {
		shift = 4
	}
	c.SHRQ(Imm(shift), t.panels)
	t.rows()
}

// rows copies row after row, a panel at a time.
func (t *spread) rows() {
	masks := t.tailMasks()
	t.from, t.to, t.next, t.count = t.GP64(), t.GP64(), t.GP64(), t.GP64()
	t.Label("row")
	t.MOVQ(t.src, t.from)
	t.MOVQ(t.dst, t.to)
	t.LEAQ(Mem{Base: t.src, Index: t.srs, Scale: ahead}, t.next)
	t.MOVQ(t.panels, t.count)
	t.TESTQ(t.count, t.count)
	t.JEQ(LabelRef("tail"))
	t.Label("panel")
	t.copy(make([]Op, 2))
	t.ADDQ(t.step, t.to)
	for _, r := range []reg.GPVirtual{t.from, t.next} {
		t.ADDQ(Imm(uint64(8*t.lanes)), r)
	}
	t.DECQ(t.count)
	t.JNE(LabelRef("panel"))
	t.Label("tail")
	t.TESTQ(t.tail, t.tail)
	t.JEQ(LabelRef("done"))
	t.copy(masks)
	t.Label("done")
	t.ADDQ(t.srs, t.src)
	t.ADDQ(Imm(uint64(8*t.lanes)), t.dst)
	t.DECQ(t.k)
	t.JNE(LabelRef("row"))
	t.VZEROUPPER()
	t.RET()
}

// copy moves the two vectors of a panel's row.
func (t *spread) copy(masks []Op) {
	t.PREFETCHT0(Mem{Base: t.next})
	if t.lanes == 16 {
		t.PREFETCHT0(Mem{Base: t.next, Disp: 64})
	}
	for v, mask := range masks {
		x := t.register(t.Context)
		at := v * t.lanes * 4
		t.load(t.Context, Mem{Base: t.from, Disp: at}, mask, t.register(t.Context), x)
		t.VMOVUPS(x, Mem{Base: t.to, Disp: at})
	}
}

// tailMasks are the masks of the two vectors of the last panel.
func (t *spread) tailMasks() []Op {
	if t.lanes == 8 {
		at, back := t.GP64(), t.GP64()
		t.LEAQ(maskTable(t.Context), at)
		t.MOVQ(t.tail, back)
		t.NEGQ(back)
		t.LEAQ(Mem{Base: at, Index: back, Scale: 4, Disp: maskZeros}, at)
		return []Op{Mem{Base: at}, Mem{Base: at, Disp: 32}}
	}
	bits, low, high := t.GP32(), t.K(), t.K()
	t.MOVL(U32(0xffffffff), bits)
	t.BZHIL(t.tail.As32(), bits, bits)
	t.KMOVW(bits, low)
	t.SHRL(Imm(16), bits)
	t.KMOVW(bits, high)
	return []Op{low, high}
}
