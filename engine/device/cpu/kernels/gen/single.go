package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The inner kernels of a product of one row read B where it lies, since each of its elements is used once. They
// take AVX2 also where there is AVX-512: memory, and not arithmetic, is what they wait for.

const (
	singleRows = 16 // rows of a transposed B
	singleCols = 64 // columns of a B that lies in order

	// How far ahead of its use B is fetched. The hardware does not follow as many rows at once, nor foresees the next row
	// of a wide B, which is on another page.
	linesAhead = 4
	rowsAhead  = 16

	line = 64 // bytes of the cache
)

// emitSingle writes them.
func emitSingle(c *build.Context) {
	emitSingleRows(c)
	emitSingleColumns(c)
}

// single declares an inner kernel, and returns its operands, with the stride of b in bytes.
func single(c *build.Context, name string, doc ...string) (y, b, brs, a, k reg.GPVirtual) {
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(y, b *float32, brs int, a *float32, k, add int)")
	c.Pragma("noescape")
	c.Doc(doc...)
	get := func(name string) reg.GPVirtual {
		r := c.GP64()
		c.Load(c.Param(name), r)
		return r
	}
	y, b, brs, a, k = get("y"), get("b"), get("brs"), get("a"), get("k")
	c.SHLQ(Imm(2), brs)
	return y, b, brs, a, k
}

// finishSingle writes the sums to y, or adds them to what is there.
func finishSingle(c *build.Context, y reg.GPVirtual, sums []reg.VecVirtual) {
	add := c.GP64()
	c.Load(c.Param("add"), add)
	c.TESTQ(add, add)
	c.JEQ(LabelRef("store"))
	for i, s := range sums {
		c.VADDPS(Mem{Base: y, Disp: 32 * i}, s, s)
	}
	c.Label("store")
	for i, s := range sums {
		c.VMOVUPS(s, Mem{Base: y, Disp: 32 * i})
	}
	c.VZEROUPPER()
	c.RET()
}

// emitSingleRows transposes four columns of eight rows at a time in registers: lane i of a vector is then a step of row i.
func emitSingleRows(c *build.Context) {
	y, b, brs, a, k := single(c, "SingleRows2",
		fmt.Sprintf("SingleRows2 multiplies %d rows of b, brs elements apart, with the row a of k numbers with AVX2 and FMA: y[i] is the sum", singleRows),
		"over t of a[t] * b[i*brs+t]. With add not 0, the sum is added to y[i]. k is at least 1.")
	brs3 := c.GP64()
	c.LEAQ(Mem{Base: brs, Index: brs, Scale: 2}, brs3)
	quads := []reg.GPVirtual{b} // the first of each four rows
	for i := 1; i < singleRows/4; i++ {
		q := c.GP64()
		c.LEAQ(Mem{Base: quads[i-1], Index: brs, Scale: 4}, q)
		quads = append(quads, q)
	}
	row := func(quad, i int) Mem {
		return []Mem{{Base: quads[quad]}, {Base: quads[quad], Index: brs, Scale: 1}, {Base: quads[quad], Index: brs, Scale: 2}, {Base: quads[quad], Index: brs3, Scale: 1}}[i]
	}
	// Half of each is written first. The allocator of registers would take the other half for one that must be kept.
	x := [4]reg.VecPhysical{reg.Y12, reg.Y13, reg.Y14, reg.Y15}
	var sums []reg.VecVirtual
	for range singleRows / 8 {
		s := c.YMM()
		c.VXORPS(s, s, s)
		sums = append(sums, s)
	}
	forward := func(steps int, pointers ...reg.GPVirtual) {
		for _, p := range pointers {
			c.ADDQ(Imm(uint64(4*steps)), p)
		}
	}
	all := append([]reg.GPVirtual{a}, quads...)
	four := func(g, from, of int) { // steps of eight rows from one on, with a from another one on
		var pairs [4]reg.VecVirtual
		for i := range x {
			c.VMOVUPS(row(2*g, i).Offset(4*from), x[i].AsX())
			c.VINSERTF128(Imm(1), row(2*g+1, i).Offset(4*from), x[i], x[i])
		}
		for i := 0; i < 4; i += 2 {
			pairs[i], pairs[i+1] = c.YMM(), c.YMM()
			c.VUNPCKLPS(x[i+1], x[i], pairs[i])
			c.VUNPCKHPS(x[i+1], x[i], pairs[i+1])
		}
		for t := range 4 {
			step, v := c.YMM(), c.YMM()
			if t%2 == 0 {
				c.VUNPCKLPD(pairs[2+t/2], pairs[t/2], step)
			} else {
				c.VUNPCKHPD(pairs[2+t/2], pairs[t/2], step)
			}
			c.VBROADCASTSS(Mem{Base: a, Disp: 4 * (of + t)}, v)
			c.VFMADD231PS(step, v, sums[g])
		}
	}
	// Two chains of sums are under way at once. The second one is a line behind: the lines at one place of rows that are a
	// power of two apart have room for eight in the cache.
	const steps = line / 4
	c.SUBQ(Imm(steps), k)
	c.JLT(LabelRef("few"))
	for from := 0; from < steps; from += 4 {
		four(0, from, from)
	}
	forward(steps, a, quads[0], quads[1])
	c.Label("line")
	c.SUBQ(Imm(steps), k)
	c.JLT(LabelRef("last"))
	for from := 0; from < steps; from += 4 {
		for g := range sums {
			for i := range 2 { // of all eight
				c.PREFETCHT0(row(2*g+from/8, from/4%2*2+i).Offset(linesAhead * line))
			}
			four(g, from, from-g*steps)
		}
	}
	forward(steps, all...)
	c.JMP(LabelRef("line"))
	c.Label("last")
	for from := 0; from < steps; from += 4 {
		four(1, from, from-steps)
	}
	forward(steps, quads[2], quads[3])
	c.Label("few")
	c.ADDQ(Imm(steps-4), k)
	c.JLT(LabelRef("rest"))
	c.Label("four")
	four(0, 0, 0)
	four(1, 0, 0)
	forward(4, all...)
	c.SUBQ(Imm(4), k)
	c.JGE(LabelRef("four"))
	c.Label("rest")
	c.ADDQ(Imm(4), k)
	c.JEQ(LabelRef("end"))
	c.Label("one")
	v := c.YMM()
	c.VBROADCASTSS(Mem{Base: a}, v)
	for g, sum := range sums {
		for h, x := range x[:2] {
			c.VMOVSS(row(2*g+h, 0), x.AsX())
			for i := 1; i < 4; i++ {
				c.VINSERTPS(Imm(uint64(i<<4)), row(2*g+h, i), x.AsX(), x.AsX())
			}
		}
		c.VINSERTF128(Imm(1), x[1].AsX(), x[0], x[0])
		c.VFMADD231PS(x[0], v, sum)
	}
	forward(1, all...)
	c.DECQ(k)
	c.JNE(LabelRef("one"))
	c.Label("end")
	finishSingle(c, y, sums)
}

// emitSingleColumns holds the sums of all columns in registers.
func emitSingleColumns(c *build.Context) {
	y, b, brs, a, k := single(c, "SingleColumns2",
		fmt.Sprintf("SingleColumns2 multiplies the row a of k numbers with %d columns of b, whose rows are brs elements apart, with AVX2 and FMA:", singleCols),
		"y[j] is the sum over t of a[t] * b[t*brs+j]. With add not 0, the sum is added to y[j]. k is at least 1.")
	var sums []reg.VecVirtual
	for range singleCols / 8 {
		s := c.YMM()
		c.VXORPS(s, s, s)
		sums = append(sums, s)
	}
	ahead := c.GP64()
	c.IMUL3Q(Imm(rowsAhead), brs, ahead)
	c.Label("step")
	for i := 0; i < singleCols; i += 16 {
		c.PREFETCHT0(Mem{Base: b, Index: ahead, Scale: 1, Disp: 4 * i})
	}
	v := c.YMM()
	c.VBROADCASTSS(Mem{Base: a}, v)
	for i, sum := range sums {
		c.VFMADD231PS(Mem{Base: b, Disp: 32 * i}, v, sum)
	}
	c.ADDQ(brs, b)
	c.ADDQ(Imm(4), a)
	c.DECQ(k)
	c.JNE(LabelRef("step"))
	finishSingle(c, y, sums)
}
