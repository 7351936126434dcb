package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitBF16 writes the product of pairs of bfloat16 and the copies that round to
// them. A pair takes the word of a float32: the earlier step of k is in its
// low half.
func emitBF16(c *build.Context) {
	s := avx512()
	s.suffix, s.about, s.madd, s.pairs = "BF16", "AVX512_BF16 on pairs of bfloat16", dot, true
	emitGemm(c, s, false)
	emitConv(c, s)
	emitRound(c)
	turns(c)
	emitHalve(c)
	emitGatherPairs(c)
	emitPairApart(c)
	emitSpreadPairs(c)
	emitAttendPairs(c)
}

// dot adds the products of both halves of b and x to sum. Neither the assembler
// library nor Go's assembler knows the instruction; encode writes it in bytes.
func dot(c *build.Context, b, x, sum reg.VecVirtual) {
	c.Instruction(&ir.Instruction{
		Opcode: "VDPBF16PS", Operands: []Op{b, x, sum}, Inputs: []Op{b, x, sum}, Outputs: []Op{sum}, ISA: []string{"AVX512_BF16"},
	})
}

// narrow leaves in y the numbers of low and then those of high as bfloat16. encode
// writes this instruction, too.
func narrow(c *build.Context, high, low, y reg.VecVirtual) {
	c.Instruction(&ir.Instruction{
		Opcode: "VCVTNE2PS2BF16", Operands: []Op{low, high, y}, Inputs: []Op{low, high}, Outputs: []Op{y}, ISA: []string{"AVX512_BF16"},
	})
}

var bf16Instruction = regexp.MustCompile(`(VDPBF16PS|VCVTNE2PS2BF16)\s+Z(\d+), Z(\d+), Z(\d+)`)

// encode replaces instructions on bfloat16 by their bytes: EVEX.512.F3.0F38.W0 52 /r and
// EVEX.512.F2.0F38.W0 72 /r, where the bits that extend register numbers are inverted.
func encode(text []byte) []byte {
	return bf16Instruction.ReplaceAllFunc(text, func(line []byte) []byte {
		match := bf16Instruction.FindSubmatch(line)
		var n [3]int
		for i, m := range match[2:] {
			n[i], _ = strconv.Atoi(string(m))
		}
		prefix, opcode := 2, 0x52
		if string(match[1]) != "VDPBF16PS" {
			prefix, opcode = 3, 0x72
		}
		b, x, y := n[0], n[1], n[2]
		not := func(v, bit, to int) int { return (^v >> bit & 1) << to }
		code := []int{
			0x62,
			not(y, 3, 7) | not(b, 4, 6) | not(b, 3, 5) | not(y, 4, 4) | 2,
			(^x&15)<<3 | 1<<2 | prefix,
			2<<5 | not(x, 4, 3),
			opcode,
			3<<6 | y&7<<3 | b&7,
		}
		var out []string
		for _, v := range code {
			out = append(out, fmt.Sprintf("BYTE $0x%02x", v))
		}
		return []byte(strings.Join(out, "; ") + " // " + string(line))
	})
}

// rounder holds the constants of rounding to bfloat16.
type rounder struct {
	*build.Context
	one, half, quiet reg.VecVirtual
	nan              reg.OpmaskVirtual
}

func newRounder(c *build.Context) rounder {
	r := rounder{Context: c, one: c.ZMM(), half: c.ZMM(), quiet: c.ZMM(), nan: c.K()}
	bits := c.GP32()
	set := func(v uint32, to reg.VecVirtual) {
		c.MOVL(U32(v), bits)
		c.VPBROADCASTD(bits, to)
	}
	set(1, r.one)
	set(0x7fff, r.half)
	set(1<<22, r.quiet)
	return r
}

// round leaves x, to the nearest even bfloat16, in the high halves of the
// result; the low halves are undefined.
func (r rounder) round(x reg.VecVirtual) reg.VecVirtual {
	y, q := r.ZMM(), r.ZMM()
	r.VPSRLD(Imm(16), x, y)
	r.VPANDD(r.one, y, y)
	r.VPADDD(r.half, y, y)
	r.VPADDD(x, y, y)
	r.VCMPPS(Imm(3), x, x, r.nan)
	r.VPORD(r.quiet, x, q)
	r.VMOVDQA32(q, r.nan, y)
	return y
}

// emitRound writes the copy of a row, one number to a word.
func emitRound(c *build.Context) {
	c.Function("Round512")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, src *float32, n int)")
	c.Pragma("noescape")
	c.Doc("Round512 rounds n numbers to bfloat16 with AVX-512 and writes them as float32. dst may be src.")
	dst, src, n := c.GP64(), c.GP64(), c.GP64()
	c.Load(c.Param("dst"), dst)
	c.Load(c.Param("src"), src)
	c.Load(c.Param("n"), n)
	r, mask, high, bits := newRounder(c), allLanes(c), c.ZMM(), c.GP32()
	c.MOVL(U32(0xffff0000), bits)
	c.VPBROADCASTD(bits, high)
	c.Label("block")
	c.CMPQ(n, Imm(16))
	c.JGE(LabelRef("whole"))
	c.MOVL(U32(0xffff), bits)
	c.BZHIL(n.As32(), bits, bits)
	c.KMOVW(bits, mask)
	c.Label("whole")
	x := c.ZMM()
	c.VMOVUPS_Z(Mem{Base: src}, mask, x)
	y := r.round(x)
	c.VPANDD(high, y, y)
	c.VMOVDQU32(y, mask, Mem{Base: dst})
	c.ADDQ(Imm(64), src)
	c.ADDQ(Imm(64), dst)
	c.SUBQ(Imm(16), n)
	c.JGT(LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}

// allLanes is a mask of sixteen ones.
func allLanes(c *build.Context) reg.OpmaskVirtual {
	bits, mask := c.GP32(), c.K()
	c.MOVL(U32(0xffff), bits)
	c.KMOVW(bits, mask)
	return mask
}

// pairing holds the constants of rounding to pairs.
type pairing struct {
	tiles
	exponent, half, turns reg.VecVirtual
	tiny                  []reg.OpmaskVirtual
}

// newPairing prepares them; interleaved says that the numbers of a pair are in two vectors.
func newPairing(c *build.Context, interleaved bool) pairing {
	p := pairing{tiles: tiles{Context: c}, exponent: c.ZMM(), half: c.ZMM(), tiny: []reg.OpmaskVirtual{c.K(), c.K()}}
	bits := c.GP32()
	set := func(v uint32, to reg.VecVirtual) {
		c.MOVL(U32(v), bits)
		c.VPBROADCASTD(bits, to)
	}
	set(0x7f800000, p.exponent)
	set(1<<15, p.half)
	if interleaved {
		p.turns = c.ZMM()
		c.VMOVDQU32(NewDataAddr(Symbol{Name: "turns", Static: true}, 0), p.turns)
	}
	return p
}

// turns is the order in which the halves of two vectors, behind each other, become pairs.
func turns(c *build.Context) {
	c.StaticGlobal("turns")
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 16 {
		c.AddDatum(4*i, U32(uint32(i|(16+i)<<16)))
	}
}

// pair rounds two vectors to the nearest even bfloat16: the numbers of x and then those of y,
// or in turns. The instruction takes subnormal numbers for zeros, as dot does, but the largest
// of these round to the least normal one: half of the last bit that stays makes them so before.
func (p pairing) pair(x, y reg.VecVirtual) reg.VecVirtual {
	for i, v := range []reg.VecVirtual{x, y} {
		p.VPTESTNMD(p.exponent, v, p.tiny[i])
		p.VPADDD(p.half, v, p.tiny[i], v)
	}
	z := p.ZMM()
	narrow(p.Context, y, x, z)
	if p.turns != nil {
		p.VPERMW(z, p.turns, z)
	}
	return z
}

// rowMasks are masks of n lanes of two vectors, n at most 31.
func (p pairing) rowMasks(n reg.GPVirtual) (first, second reg.OpmaskVirtual) {
	bits := p.GP32()
	first, second = p.K(), p.K()
	p.MOVL(U32(0xffffffff), bits)
	p.BZHIL(n.As32(), bits, bits)
	p.KMOVW(bits, first)
	p.SHRL(Imm(16), bits)
	p.KMOVW(bits, second)
	return first, second
}

// emitHalve writes the copy of rows.
func emitHalve(c *build.Context) {
	c.Function("HalveBF16")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, drs int, src *float32, srs, rows, k int)")
	c.Pragma("noescape")
	c.Doc("HalveBF16 rounds k numbers of each row to bfloat16 with AVX512_BF16 and writes two to a word. Behind",
		"them, a row of dst is filled up with zeros to a whole number of 16 words. drs and srs are the words from",
		"row to row. Subnormal numbers may become zeros.")
	p := newPairing(c, false)
	dst, drs, src, srs, rows := p.load("dst"), p.load("drs"), p.load("src"), p.load("srs"), p.load("rows")
	c.SHLQ(Imm(2), drs)
	c.SHLQ(Imm(2), srs)
	whole, rest := p.load("k"), c.GP64()
	c.MOVQ(whole, rest)
	c.ANDQ(Imm(31), rest)
	c.SHRQ(Imm(5), whole)
	first, second := p.rowMasks(rest)
	from, to, n := c.GP64(), c.GP64(), c.GP64()
	x, y := c.ZMM(), c.ZMM()
	c.Label("row")
	c.MOVQ(src, from)
	c.MOVQ(dst, to)
	c.MOVQ(whole, n)
	c.TESTQ(n, n)
	c.JEQ(LabelRef("rest"))
	c.Label("block")
	c.VMOVUPS(Mem{Base: from}, x)
	c.VMOVUPS(Mem{Base: from, Disp: 64}, y)
	c.VMOVDQU32(p.pair(x, y), Mem{Base: to})
	c.SUBQ(I32(-128), from)
	c.ADDQ(Imm(64), to)
	c.DECQ(n)
	c.JNE(LabelRef("block"))
	c.Label("rest")
	c.TESTQ(rest, rest)
	c.JEQ(LabelRef("next"))
	c.VMOVUPS_Z(Mem{Base: from}, first, x)
	c.VMOVUPS_Z(Mem{Base: from, Disp: 64}, second, y)
	c.VMOVDQU32(p.pair(x, y), Mem{Base: to})
	c.Label("next")
	c.ADDQ(srs, src)
	c.ADDQ(drs, dst)
	c.DECQ(rows)
	c.JNE(LabelRef("row"))
	c.VZEROUPPER()
	c.RET()
}

// emitGatherPairs writes the copy of a few rows of a transposed A. A vector holds two of
// its columns, in whose place further ones behind the last are zeros.
func emitGatherPairs(c *build.Context) {
	c.Function("GatherPairsBF16")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, src *float32, cs, rows, k int)")
	c.Pragma("noescape")
	c.Doc("GatherPairsBF16 rounds k columns of 1 to 8 rows, which lie in order, to bfloat16 with AVX512_BF16: row i of columns",
		"2j and 2j+1, of which the first is src[2j*cs+i], becomes dst[j*8+i]. Rows up to 8 that are missing become zeros, and",
		"dst is filled up with zeros to a whole number of 16 words. Subnormal numbers may become zeros.")
	p := newPairing(c, true)
	dst, src, cs, rows, k := p.load("dst"), p.load("src"), p.load("cs"), p.load("rows"), p.load("k")
	c.SHLQ(Imm(2), cs)
	cs3 := c.GP64()
	c.LEAQ(Mem{Base: cs, Index: cs, Scale: 2}, cs3)
	bits, low, high := c.GP32(), c.K(), c.K()
	c.MOVL(U32(0xff), bits)
	c.BZHIL(rows.As32(), bits, bits)
	c.KMOVW(bits, low)
	c.SHLL(Imm(8), bits)
	c.KMOVW(bits, high)
	// columns are four from src on; the second two go to the upper half of a vector.
	columns := func(src reg.GPVirtual, upper int) []Mem {
		return []Mem{{Base: src}, {Base: src, Index: cs, Scale: 1}, {Base: src, Index: cs, Scale: 2, Disp: upper}, {Base: src, Index: cs3, Scale: 1, Disp: upper}}
	}
	at, next, apart := columns(src, -32), c.GP64(), c.GP64()
	c.MOVQ(cs, apart)
	c.SHLQ(Imm(5), apart) // to as many columns further on as are packed at a time
	v := []reg.VecVirtual{c.ZMM(), c.ZMM()}
	move := func(n int) {
		for i := range 2 {
			if i < n {
				c.VMOVUPS_Z(at[i], low, v[i])
			} else {
				c.VXORPS(v[i], v[i], v[i])
			}
			if i+2 < n {
				c.VMOVUPS(at[i+2], high, v[i])
			}
		}
		c.VMOVDQU32(p.pair(v[0], v[1]), Mem{Base: dst})
	}
	c.SUBQ(Imm(4), k)
	c.JLT(LabelRef("rest"))
	c.Label("four")
	c.LEAQ(Mem{Base: src, Index: apart, Scale: 1}, next)
	for _, column := range columns(next, 0) {
		c.PREFETCHT0(column)
	}
	move(4)
	c.LEAQ(Mem{Base: src, Index: cs, Scale: 4}, src)
	c.ADDQ(Imm(64), dst)
	c.SUBQ(Imm(4), k)
	c.JGE(LabelRef("four"))
	c.Label("rest")
	for n := 3; n >= 1; n-- {
		c.CMPQ(k, I8(n-4))
		c.JEQ(LabelRef(fmt.Sprint("rest", n)))
	}
	c.VZEROUPPER()
	c.RET()
	for n := 3; n >= 1; n-- {
		c.Label(fmt.Sprint("rest", n))
		move(n)
		c.VZEROUPPER()
		c.RET()
	}
}

// emitPairApart writes the copy that pairs each number with one further on.
func emitPairApart(c *build.Context) {
	c.Function("PairApartBF16")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(data *float32, apart, n int)")
	c.Pragma("noescape")
	c.Doc("PairApartBF16 rounds numbers to bfloat16 with AVX512_BF16, in place: the first n numbers become words that hold",
		"the number and that which is apart numbers, at least one, further on. Subnormal numbers may become zeros.")
	p := newPairing(c, true)
	data, apart, n := p.load("data"), p.load("apart"), p.load("n")
	mask, bits := allLanes(c), c.GP32()
	x, y := c.ZMM(), c.ZMM()
	c.Label("block")
	c.CMPQ(n, Imm(16))
	c.JGE(LabelRef("whole"))
	c.MOVL(U32(0xffff), bits)
	c.BZHIL(n.As32(), bits, bits)
	c.KMOVW(bits, mask)
	c.Label("whole")
	c.VMOVUPS_Z(Mem{Base: data}, mask, x)
	c.VMOVUPS_Z(Mem{Base: data, Index: apart, Scale: 4}, mask, y)
	c.VMOVDQU32(p.pair(x, y), mask, Mem{Base: data})
	c.ADDQ(Imm(64), data)
	c.SUBQ(Imm(16), n)
	c.JGT(LabelRef("block"))
	c.VZEROUPPER()
	c.RET()
}

// emitSpreadPairs writes the copy that makes panels of pairs.
func emitSpreadPairs(c *build.Context) {
	c.Function("SpreadPairsBF16")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, step int, src *float32, srs, cols, k int)")
	c.Pragma("noescape")
	c.Doc("SpreadPairsBF16 rounds k rows of cols columns to bfloat16 with AVX512_BF16 and copies them to panels of 32 columns,",
		"step words apart. Rows 2i and 2i+1 become row i of pairs; what is missing of either is zero. srs is",
		"the elements from row to row. Subnormal numbers may become zeros.")
	p := newPairing(c, true)
	dst, step, src, srs, k := p.load("dst"), p.load("step"), p.load("src"), p.load("srs"), p.load("k")
	c.SHLQ(Imm(2), step)
	c.SHLQ(Imm(2), srs)
	panels, rest := p.load("cols"), c.GP64()
	c.MOVQ(panels, rest)
	c.ANDQ(Imm(31), rest)
	c.SHRQ(Imm(5), panels)
	first, second := p.rowMasks(rest)
	x, next, to, n := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	// The second row of the last pair may be missing: it is the first one again, with no lane of it read.
	all, bits := c.K(), c.GP32()
	masks := [2][2]reg.OpmaskVirtual{{first, c.K()}, {second, c.K()}}
	c.MOVL(U32(0xffff), bits)
	c.KMOVW(bits, all)
	c.KMOVW(first, masks[0][1])
	c.KMOVW(second, masks[1][1])
	a, b := c.ZMM(), c.ZMM()
	c.Label("rows")
	c.CMPQ(k, Imm(2))
	c.JGE(LabelRef("both"))
	c.KXORW(all, all, all)
	c.KXORW(masks[0][1], masks[0][1], masks[0][1])
	c.KXORW(masks[1][1], masks[1][1], masks[1][1])
	c.Label("both")
	c.MOVQ(src, x)
	c.LEAQ(Mem{Base: src, Index: srs, Scale: 8}, next)
	c.MOVQ(dst, to)
	c.MOVQ(panels, n)
	c.TESTQ(n, n)
	c.JEQ(LabelRef("tail"))
	c.Label("panel")
	for j := range 2 {
		c.PREFETCHT0(Mem{Base: next, Disp: j * tileRow})
		c.PREFETCHT0(Mem{Base: next, Index: srs, Scale: 1, Disp: j * tileRow})
		c.VMOVUPS(Mem{Base: x, Disp: j * tileRow}, a)
		c.VMOVUPS_Z(Mem{Base: x, Index: srs, Scale: 1, Disp: j * tileRow}, all, b)
		c.VMOVDQU32(p.pair(a, b), Mem{Base: to, Disp: j * tileRow})
	}
	c.SUBQ(I32(-2*tileRow), x)
	c.SUBQ(I32(-2*tileRow), next)
	c.ADDQ(step, to)
	c.DECQ(n)
	c.JNE(LabelRef("panel"))
	c.Label("tail")
	c.TESTQ(rest, rest)
	c.JEQ(LabelRef("done"))
	for j := range 2 {
		c.VMOVUPS_Z(Mem{Base: x, Disp: j * tileRow}, masks[j][0], a)
		c.VMOVUPS_Z(Mem{Base: x, Index: srs, Scale: 1, Disp: j * tileRow}, masks[j][1], b)
		c.VMOVDQU32(p.pair(a, b), Mem{Base: to, Disp: j * tileRow})
	}
	c.Label("done")
	c.SUBQ(I32(-2*tileRow), dst)
	c.LEAQ(Mem{Base: src, Index: srs, Scale: 2}, src)
	c.SUBQ(Imm(2), k)
	c.JGT(LabelRef("rows"))
	c.VZEROUPPER()
	c.RET()
}
