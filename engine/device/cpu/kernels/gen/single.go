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
	rowsAhead  = 6

	line = 64 // bytes of the cache
)

// emitSingle writes them.
func emitSingle(c *build.Context) {
	emitSingleRows(c)
	emitSingleColumns(c)
	emitSingleStored(c)
}

// single declares an inner kernel, and returns its operands.
func single(c *build.Context, name, signature string, doc ...string) (y, b, apart, a, k reg.GPVirtual) {
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr(signature)
	c.Pragma("noescape")
	c.Doc(doc...)
	get := func(i int) reg.GPVirtual {
		r := c.GP64()
		c.Load(c.ParamIndex(i), r)
		return r
	}
	return get(0), get(1), get(2), get(3), get(4)
}

const singleSignature = "func(y, b *float32, brs int, a *float32, k, add int)"

// zeros are n vectors of sums.
func zeros(c *build.Context, n int) (sums []reg.VecVirtual) {
	for range n {
		s := c.YMM()
		c.VXORPS(s, s, s)
		sums = append(sums, s)
	}
	return sums
}

// spreadNumber is the number at so many bytes from a in all lanes.
func spreadNumber(c *build.Context, a reg.GPVirtual, at int) reg.VecVirtual {
	v := c.YMM()
	c.VBROADCASTSS(Mem{Base: a, Disp: at}, v)
	return v
}

// quadsOf are the addresses of the first of each four rows from b on, apart bytes from each other, and thrice that distance.
func quadsOf(c *build.Context, b, apart reg.GPVirtual) (quads []reg.GPVirtual, apart3 reg.GPVirtual) {
	apart3 = c.GP64()
	c.LEAQ(Mem{Base: apart, Index: apart, Scale: 2}, apart3)
	quads = []reg.GPVirtual{b}
	for i := 1; i < singleRows/4; i++ {
		q := c.GP64()
		c.LEAQ(Mem{Base: quads[i-1], Index: apart, Scale: 4}, q)
		quads = append(quads, q)
	}
	return quads, apart3
}

// rowOf is where row i of quads is.
func rowOf(quads []reg.GPVirtual, apart, apart3 reg.GPVirtual, i int) Mem {
	q := quads[i/4]
	return []Mem{{Base: q}, {Base: q, Index: apart, Scale: 1}, {Base: q, Index: apart, Scale: 2}, {Base: q, Index: apart3, Scale: 1}}[i%4]
}

// turnWords transposes four vectors of four words, in each half, and hands over each word of all.
func turnWords(c *build.Context, x [4]reg.VecPhysical, each func(t int, word reg.VecVirtual)) {
	var pairs [4]reg.VecVirtual
	for i := 0; i < 4; i += 2 {
		pairs[i], pairs[i+1] = c.YMM(), c.YMM()
		c.VUNPCKLPS(x[i+1], x[i], pairs[i])
		c.VUNPCKHPS(x[i+1], x[i], pairs[i+1])
	}
	for t := range 4 {
		word := c.YMM()
		if t%2 == 0 {
			c.VUNPCKLPD(pairs[2+t/2], pairs[t/2], word)
		} else {
			c.VUNPCKHPD(pairs[2+t/2], pairs[t/2], word)
		}
		each(t, word)
	}
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
	y, b, brs, a, k := single(c, "SingleRows2", singleSignature,
		fmt.Sprintf("SingleRows2 multiplies %d rows of b, brs elements apart, with the row a of k numbers with AVX2 and FMA: y[i] is the sum", singleRows),
		"over t of a[t] * b[i*brs+t]. With add not 0, the sum is added to y[i]. k is at least 1.")
	c.SHLQ(Imm(2), brs)
	quads, brs3 := quadsOf(c, b, brs)
	row := func(quad, i int) Mem { return rowOf(quads, brs, brs3, 4*quad+i) }
	// Half of each is written first. The allocator of registers would take the other half for one that must be kept.
	x := [4]reg.VecPhysical{reg.Y12, reg.Y13, reg.Y14, reg.Y15}
	sums := zeros(c, singleRows/8)
	forward := func(steps int, pointers ...reg.GPVirtual) {
		for _, p := range pointers {
			c.ADDQ(Imm(uint64(4*steps)), p)
		}
	}
	all := append([]reg.GPVirtual{a}, quads...)
	four := func(g, from, of int) { // steps of eight rows from one on, with a from another one on
		for i := range x {
			c.VMOVUPS(row(2*g, i).Offset(4*from), x[i].AsX())
			c.VINSERTF128(Imm(1), row(2*g+1, i).Offset(4*from), x[i], x[i])
		}
		turnWords(c, x, func(t int, step reg.VecVirtual) { c.VFMADD231PS(step, spreadNumber(c, a, 4*(of+t)), sums[g]) })
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
	y, b, brs, a, k := single(c, "SingleColumns2", singleSignature,
		fmt.Sprintf("SingleColumns2 multiplies the row a of k numbers with %d columns of b, whose rows are brs elements apart, with AVX2 and FMA:", singleCols),
		"y[j] is the sum over t of a[t] * b[t*brs+j]. With add not 0, the sum is added to y[j]. k is at least 1.")
	c.SHLQ(Imm(2), brs)
	sums := zeros(c, singleCols/8)
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
