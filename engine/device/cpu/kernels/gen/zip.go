package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// numbers are 16 whole numbers in a vector.
func numbers(c *build.Context, name string, of func(i int) int) reg.VecVirtual {
	m := c.StaticGlobal(name)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 16 {
		c.AddDatum(4*i, U32(uint32(of(i))))
	}
	v := c.ZMM()
	c.VMOVUPS(m, v)
	return v
}

// masksBelow are the masks of the first n lanes of two vectors.
func masksBelow(c *build.Context, n reg.GPVirtual) (low, high reg.OpmaskVirtual) {
	bits := c.GP32()
	low, high = c.K(), c.K()
	c.MOVL(U32(0xffffffff), bits)
	c.BZHIL(n.As32(), bits, bits)
	c.KMOVW(bits, low)
	c.SHRL(Imm(16), bits)
	c.KMOVW(bits, high)
	return low, high
}

// function begins a function and returns its arguments.
func function(c *build.Context, name, signature string, args []string, doc ...string) []reg.GPVirtual {
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr(signature)
	c.Pragma("noescape")
	c.Doc(doc...)
	var all []reg.GPVirtual
	for _, a := range args {
		r := c.GP64()
		c.Load(c.Param(a), r)
		all = append(all, r)
	}
	return all
}

// emitUnzip512 writes whole vectors while more than one is left, so that it
// reads nothing behind the last number.
func emitUnzip512(c *build.Context) {
	a := function(c, "Unzip512", "func(dst, src *float32, n int)", []string{"dst", "src", "n"},
		"Unzip512 copies every other number with AVX-512: dst[i] = src[2*i] for i below n, which is at least 1. It reads 2*n-1",
		"numbers.")
	dst, src, n := a[0], a[1], a[2]
	index := numbers(c, "evens", func(i int) int { return 2 * i })
	c.Label("whole")
	c.CMPQ(n, Imm(16))
	c.JLE(LabelRef("last"))
	x := c.ZMM()
	c.VMOVUPS(Mem{Base: src}, x)
	c.VPERMT2PS(Mem{Base: src, Disp: 64}, index, x)
	c.VMOVUPS(x, Mem{Base: dst})
	c.ADDQ(Imm(128), src)
	c.ADDQ(Imm(64), dst)
	c.SUBQ(Imm(16), n)
	c.JMP(LabelRef("whole"))
	c.Label("last")
	read := c.GP64()
	c.LEAQ(Mem{Base: n, Index: n, Scale: 1, Disp: -1}, read)
	low, high := masksBelow(c, read)
	written, _ := masksBelow(c, n)
	x, y := c.ZMM(), c.ZMM()
	c.VMOVUPS_Z(Mem{Base: src}, low, x)
	c.VMOVUPS_Z(Mem{Base: src, Disp: 64}, high, y)
	c.VPERMT2PS(y, index, x)
	c.VMOVUPS(x, written, Mem{Base: dst})
	c.VZEROUPPER()
	c.RET()
}

func emitZip512(c *build.Context) {
	p := function(c, "Zip512", "func(dst, a, b *float32, n int)", []string{"dst", "a", "b", "n"},
		"Zip512 writes n numbers of a and b in turns with AVX-512: dst[2*i] = a[i], dst[2*i+1] = b[i].")
	dst, a, b, n := p[0], p[1], p[2], p[3]
	first := numbers(c, "lower", func(i int) int { return i/2 + i%2*16 })
	second := numbers(c, "upper", func(i int) int { return 8 + i/2 + i%2*16 })
	mix := func(x, y reg.VecVirtual) (low, high reg.VecVirtual) {
		low, high = c.ZMM(), c.ZMM()
		c.VMOVUPS(x, low)
		c.VMOVUPS(x, high)
		c.VPERMT2PS(y, first, low)
		c.VPERMT2PS(y, second, high)
		return low, high
	}
	c.Label("whole")
	c.CMPQ(n, Imm(32))
	c.JLT(LabelRef("last"))
	x, y := c.ZMM(), c.ZMM()
	c.VMOVUPS(Mem{Base: a}, x)
	c.VMOVUPS(Mem{Base: b}, y)
	low, high := mix(x, y)
	c.VMOVUPS(low, Mem{Base: dst})
	c.VMOVUPS(high, Mem{Base: dst, Disp: 64})
	c.ADDQ(Imm(64), a)
	c.ADDQ(Imm(64), b)
	c.SUBQ(I8(-128), dst)
	c.SUBQ(Imm(32), n)
	c.JMP(LabelRef("whole"))
	c.Label("last")
	half := c.GP64()
	c.MOVQ(n, half)
	c.SHRQ(Imm(1), half)
	ofB, _ := masksBelow(c, half)
	c.LEAQ(Mem{Base: n, Disp: 1}, half)
	c.SHRQ(Imm(1), half)
	ofA, _ := masksBelow(c, half)
	lower, upper := masksBelow(c, n)
	x, y = c.ZMM(), c.ZMM()
	c.VMOVUPS_Z(Mem{Base: a}, ofA, x)
	c.VMOVUPS_Z(Mem{Base: b}, ofB, y)
	low, high = mix(x, y)
	c.VMOVUPS(low, lower, Mem{Base: dst})
	c.VMOVUPS(high, upper, Mem{Base: dst, Disp: 64})
	c.VZEROUPPER()
	c.RET()
}

func emitUnzip2(c *build.Context) {
	p := function(c, "Unzip2", "func(dst, src *float32, n int)", []string{"dst", "src", "n"},
		"Unzip2 copies every other number with AVX2: dst[i] = src[2*i] for i below n, a whole number of 8. It reads 2*n numbers.")
	dst, src, n := p[0], p[1], p[2]
	c.Label("next")
	x := c.YMM()
	c.VMOVUPS(Mem{Base: src}, x)
	c.VSHUFPS(Imm(0x88), Mem{Base: src, Disp: 32}, x, x)
	c.VPERMPD(Imm(0xd8), x, x)
	c.VMOVUPS(x, Mem{Base: dst})
	c.ADDQ(Imm(64), src)
	c.ADDQ(Imm(32), dst)
	c.SUBQ(Imm(8), n)
	c.JGT(LabelRef("next"))
	c.VZEROUPPER()
	c.RET()
}

func emitZip2(c *build.Context) {
	p := function(c, "Zip2", "func(dst, a, b *float32, n int)", []string{"dst", "a", "b", "n"},
		"Zip2 writes n numbers of a and b in turns with AVX2, n being a whole number of 16: dst[2*i] = a[i], dst[2*i+1] = b[i].")
	dst, a, b, n := p[0], p[1], p[2], p[3]
	c.Label("next")
	x, low, high, y := c.YMM(), c.YMM(), c.YMM(), c.YMM()
	c.VMOVUPS(Mem{Base: a}, x)
	c.VMOVUPS(Mem{Base: b}, y)
	c.VUNPCKLPS(y, x, low)
	c.VUNPCKHPS(y, x, high)
	c.VPERM2F128(Imm(0x20), high, low, x)
	c.VPERM2F128(Imm(0x31), high, low, y)
	c.VMOVUPS(x, Mem{Base: dst})
	c.VMOVUPS(y, Mem{Base: dst, Disp: 32})
	c.ADDQ(Imm(32), a)
	c.ADDQ(Imm(32), b)
	c.ADDQ(Imm(64), dst)
	c.SUBQ(Imm(16), n)
	c.JGT(LabelRef("next"))
	c.VZEROUPPER()
	c.RET()
}
