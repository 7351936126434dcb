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
	s.suffix, s.about, s.madd = "BF16", "AVX512_BF16 on pairs of bfloat16", dot
	emitGemm(c, s)
	emitRow(c, true)
	emitRow(c, false)
	emitPair(c)
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

var ofBF16 = regexp.MustCompile(`(VDPBF16PS|VCVTNE2PS2BF16)\s+Z(\d+), Z(\d+), Z(\d+)`)

// encode replaces VDPBF16PS and VCVTNE2PS2BF16 by their bytes: EVEX.512.F3.0F38.W0 52 /r and
// EVEX.512.F2.0F38.W0 72 /r, where the bits that extend register numbers are inverted.
func encode(text []byte) []byte {
	return ofBF16.ReplaceAllFunc(text, func(line []byte) []byte {
		var n [3]int
		parts := ofBF16.FindSubmatch(line)
		for i, m := range parts[2:] {
			n[i], _ = strconv.Atoi(string(m))
		}
		prefix, opcode := 2, 0x52
		if string(parts[1]) == "VCVTNE2PS2BF16" {
			prefix, opcode = 3, 0x72
		}
		b, x, sum := n[0], n[1], n[2]
		not := func(v, bit, to int) int { return (^v >> bit & 1) << to }
		code := []int{
			0x62,
			not(sum, 3, 7) | not(b, 4, 6) | not(b, 3, 5) | not(sum, 4, 4) | 2,
			(^x&15)<<3 | 1<<2 | prefix,
			2<<5 | not(x, 4, 3),
			opcode,
			3<<6 | sum&7<<3 | b&7,
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

// emitRow writes the copy of a row, one number to a word or two.
func emitRow(c *build.Context, halve bool) {
	name, step := "Round512", uint64(64)
	doc := []string{"Round512 rounds n numbers to bfloat16 with AVX-512 and writes them as float32. dst may be src."}
	if halve {
		name, step = "Halve512", 32
		doc = []string{"Halve512 rounds n numbers to bfloat16 with AVX-512 and writes two to a word. Behind",
			"them, dst is filled up with zeros to a whole number of 8 words."}
	}
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, src *float32, n int)")
	c.Pragma("noescape")
	c.Doc(doc...)
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
	if halve {
		c.VPSRLD(Imm(16), y, y)
		c.VPMOVDW(y, Mem{Base: dst})
	} else {
		c.VPANDD(high, y, y)
		c.VMOVDQU32(y, mask, Mem{Base: dst})
	}
	c.ADDQ(Imm(64), src)
	c.ADDQ(Imm(step), dst)
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

// emitPair writes the copy of a panel.
func emitPair(c *build.Context) {
	c.Function("Pair512")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(panel *float32, width, pairs int)")
	c.Pragma("noescape")
	c.Doc("Pair512 rounds a panel of so many pairs of rows to bfloat16 with AVX-512, in place: rows 2i and 2i+1",
		"become row i, each word of which holds one number of either. Rows have 8 or a multiple of 16 columns.")
	dst, src, width, pairs := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.Load(c.Param("panel"), dst)
	c.Load(c.Param("width"), width)
	c.Load(c.Param("pairs"), pairs)
	c.MOVQ(dst, src)
	r, mask, high := newRounder(c), allLanes(c), c.ZMM()
	bits, bytes, stride, left := c.GP32(), c.GP64(), c.GP64(), c.GP64()
	c.MOVL(U32(0xffff0000), bits)
	c.VPBROADCASTD(bits, high)
	c.MOVQ(I32(64), bytes)
	c.MOVQ(width, stride)
	c.SHLQ(Imm(2), stride)
	c.CMPQ(width, Imm(8))
	c.JNE(LabelRef("pair"))
	c.MOVL(U32(0xff), bits)
	c.KMOVW(bits, mask)
	c.MOVQ(I32(32), bytes)
	c.Label("pair")
	c.MOVQ(stride, left)
	c.Label("columns")
	x, y := c.ZMM(), c.ZMM()
	c.VMOVUPS_Z(Mem{Base: src}, mask, x)
	c.VMOVUPS_Z(Mem{Base: src, Index: stride, Scale: 1}, mask, y)
	first, second := r.round(x), r.round(y)
	c.VPSRLD(Imm(16), first, first)
	c.VPANDD(high, second, second)
	c.VPORD(first, second, second)
	c.VMOVDQU32(second, mask, Mem{Base: dst})
	c.ADDQ(bytes, src)
	c.ADDQ(bytes, dst)
	c.SUBQ(bytes, left)
	c.JGT(LabelRef("columns"))
	c.ADDQ(stride, src)
	c.DECQ(pairs)
	c.JNE(LabelRef("pair"))
	c.VZEROUPPER()
	c.RET()
}

// emitSpreadPairs writes the copy that makes panels of pairs.
func emitSpreadPairs(c *build.Context) {
	c.Function("SpreadPairs512")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, step int, src *float32, srs, cols, k int)")
	c.Pragma("noescape")
	c.Doc("SpreadPairs512 rounds k rows of cols columns to bfloat16 with AVX-512 and copies them to panels of 32 columns,",
		"step words apart. Rows 2i and 2i+1 become row i of pairs; what is missing of either is zero. srs is",
		"the elements from row to row.")
	t := tiles{Context: c}
	dst, step, src, srs, k := t.load("dst"), t.load("step"), t.load("src"), t.load("srs"), t.load("k")
	r, high, bits, ones := newRounder(c), c.ZMM(), c.GP32(), c.GP32()
	c.MOVL(U32(0xffff0000), bits)
	c.VPBROADCASTD(bits, high)
	c.MOVL(U32(0xffff), ones)
	c.SHLQ(Imm(2), step)
	c.SHLQ(Imm(2), srs)
	c.Label("rows")
	cols, x, to, n := t.load("cols"), c.GP64(), c.GP64(), c.GP64()
	first, second := c.K(), c.K()
	c.MOVQ(src, x)
	c.MOVQ(dst, to)
	c.Label("panel")
	for j := range 2 {
		// Of this vector's columns, those that there are.
		c.MOVQ(cols, n)
		if j == 1 {
			c.SUBQ(Imm(16), n)
		}
		zero := c.GP64()
		c.XORQ(zero, zero)
		c.TESTQ(n, n)
		c.CMOVQLT(zero, n)
		c.CMPQ(n, Imm(16))
		sixteen := c.GP64()
		c.MOVQ(I32(16), sixteen)
		c.CMOVQGT(sixteen, n)
		c.BZHIL(n.As32(), ones, bits)
		c.KMOVW(bits, first)
		c.CMPQ(k, Imm(2))
		c.CMOVLLT(zero.As32(), bits)
		c.KMOVW(bits, second)
		a, b := c.ZMM(), c.ZMM()
		c.VMOVUPS_Z(Mem{Base: x, Disp: j * tileRow}, first, a)
		c.VMOVUPS_Z(Mem{Base: x, Index: srs, Scale: 1, Disp: j * tileRow}, second, b)
		low, up := r.round(a), r.round(b)
		c.VPSRLD(Imm(16), low, low)
		c.VPANDD(high, up, up)
		c.VPORD(low, up, up)
		c.VMOVDQU32(up, Mem{Base: to, Disp: j * tileRow})
	}
	c.ADDQ(Imm(2*tileRow), x)
	c.ADDQ(step, to)
	c.SUBQ(Imm(32), cols)
	c.JGT(LabelRef("panel"))
	c.ADDQ(Imm(2*tileRow), dst)
	c.LEAQ(Mem{Base: src, Index: srs, Scale: 2}, src)
	c.SUBQ(Imm(2), k)
	c.JGT(LabelRef("rows"))
	c.VZEROUPPER()
	c.RET()
}
