package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	fewRows    = 8  // most rows of C
	fewColumns = 16 // rows of a transposed B, and so columns of C
)

// few is the state of the inner kernel of a product of few rows with a transposed B.
type few struct {
	*build.Context
	b, brs, brs3, a, ars, ars3, ars5, ars7, k reg.GPVirtual
	ahead, next                               reg.GPVirtual // how far ahead B is fetched, and at the end of its rows
	sums                                      []reg.VecVirtual
}

// emitFew writes a kernel that reads B where it lies: to copy it takes longer than to multiply it a few times. It transposes
// sixteen steps of sixteen rows at a time in registers: lane i of a vector is then a step of row i. Each even number of rows
// of C has a loop of its own; of an odd number, one row too many is computed.
func emitFew(c *build.Context) {
	c.Function("Few512")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(c *float32, ldc int, a *float32, ars int, b *float32, brs, rows, k, add int)")
	c.Pragma("noescape")
	c.Doc(fmt.Sprintf("Few512 multiplies 2 to %d rows of a with %d rows of b with AVX-512: c[r][i] is the sum over t of", fewRows, fewColumns),
		"a[r][t] * b[i][t]. With add not 0, it is added. Strides are in elements, from row to row. a has an even number of rows,",
		"of which c gets all but perhaps the last. k is at least 1.")
	f := &few{Context: c}
	f.b, f.brs, f.a, f.ars, f.k = f.get("b"), f.get("brs"), f.get("a"), f.get("ars"), f.get("k")
	c.SHLQ(Imm(2), f.brs)
	c.SHLQ(Imm(2), f.ars)
	f.ars3, f.ars5, f.ars7, f.brs3 = c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.LEAQ(Mem{Base: f.ars, Index: f.ars, Scale: 2}, f.ars3)
	c.LEAQ(Mem{Base: f.ars, Index: f.ars, Scale: 4}, f.ars5)
	c.LEAQ(Mem{Base: f.ars3, Index: f.ars, Scale: 4}, f.ars7)
	c.LEAQ(Mem{Base: f.brs, Index: f.brs, Scale: 2}, f.brs3)
	// At the end of these rows of B, the beginning of those after them is fetched.
	f.ahead, f.next = c.GP64(), c.GP64()
	lines := c.GP64()
	c.LEAQ(Mem{Base: f.k, Disp: fewColumns - 1}, lines)
	c.ANDQ(I32(-fewColumns), lines)
	c.SHLQ(Imm(2), lines)
	c.MOVQ(f.brs, f.next)
	c.SHLQ(Imm(4), f.next) // fewColumns rows
	c.SUBQ(lines, f.next)
	c.MOVQ(I32(linesAhead*line), f.ahead)
	c.ADDQ(f.ahead, f.next)
	rows := f.get("rows")
	for n := fewRows; n > 2; n -= 2 {
		c.CMPQ(rows, Imm(uint64(n-1)))
		c.JGE(LabelRef(fmt.Sprint("rows", n)))
	}
	for n := 2; n <= fewRows; n += 2 {
		f.rows(n)
	}
}

func (f *few) get(name string) reg.GPVirtual {
	r := f.GP64()
	f.Load(f.Param(name), r)
	return r
}

// number is step t from a on of row r.
func (f *few) number(r, t int) Mem {
	m := Mem{Base: f.a, Disp: 4 * t}
	switch r {
	case 1, 2, 4:
		m.Index, m.Scale = f.ars, uint8(r)
	case 3:
		m.Index, m.Scale = f.ars3, 1
	case 5:
		m.Index, m.Scale = f.ars5, 1
	case 6:
		m.Index, m.Scale = f.ars3, 2
	case 7:
		m.Index, m.Scale = f.ars7, 1
	}
	return m
}

// multiply adds the products of step t with a vector. Its order of factors, and that of finish, are those of Gemm512, on
// which the bits of a NaN depend.
func (f *few) multiply(t int, b reg.VecVirtual) {
	for r, sum := range f.sums {
		x := f.ZMM()
		f.VBROADCASTSS(f.number(r, t), x)
		f.VFMADD231PS(b, x, sum)
	}
}

// each walks the rows of B from one on.
func (f *few) each(at reg.GPVirtual, do func(i int, m Mem)) {
	for i := range fewColumns {
		do(i, []Mem{{Base: at}, {Base: at, Index: f.brs, Scale: 1}, {Base: at, Index: f.brs, Scale: 2}, {Base: at, Index: f.brs3, Scale: 1}}[i%4])
		if i%4 == 3 && i < fewColumns-1 {
			f.LEAQ(Mem{Base: at, Index: f.brs, Scale: 4}, at)
		}
	}
}

// rows computes n rows of C.
func (f *few) rows(n int) {
	name := fmt.Sprint("rows", n)
	f.Label(name)
	f.sums = nil
	for range n {
		v := f.ZMM()
		f.VPXORD(v, v, v)
		f.sums = append(f.sums, v)
	}
	forward := func(steps int) {
		f.ADDQ(Imm(uint64(4*steps)), f.a)
		f.ADDQ(Imm(uint64(4*steps)), f.b)
	}
	f.SUBQ(Imm(fewColumns), f.k)
	f.JLT(LabelRef(name + "rest"))
	f.Label(name + "line")
	f.CMPQ(f.k, Imm((linesAhead-1)*line/4))
	f.CMOVQLT(f.next, f.ahead)
	at, block := f.GP64(), make([]reg.VecVirtual, fewColumns)
	f.LEAQ(Mem{Base: f.b, Index: f.ahead, Scale: 1}, at)
	f.each(at, func(_ int, m Mem) { f.PREFETCHT0(m) })
	f.MOVQ(f.b, at)
	f.each(at, func(i int, m Mem) {
		block[i] = f.ZMM()
		f.VMOVUPS(m, block[i])
	})
	for t, step := range transposed(f.Context, block) {
		f.multiply(t, step)
	}
	forward(fewColumns)
	f.SUBQ(Imm(fewColumns), f.k)
	f.JGE(LabelRef(name + "line"))
	f.Label(name + "rest")
	f.ADDQ(Imm(fewColumns), f.k)
	f.JEQ(LabelRef(name + "end"))
	f.Label(name + "one")
	var quads [fewColumns / 4]reg.VecVirtual
	f.MOVQ(f.b, at)
	f.each(at, func(i int, m Mem) {
		if i%4 == 0 {
			quads[i/4] = f.ZMM()
			f.VMOVSS(m, quads[i/4].AsX())
		} else {
			f.VINSERTPS(Imm(uint64(i%4<<4)), m, quads[i/4].AsX(), quads[i/4].AsX())
		}
	})
	for i := 1; i < len(quads); i++ {
		f.VINSERTF32X4(Imm(uint64(i)), quads[i].AsX(), quads[0], quads[0])
	}
	f.multiply(0, quads[0])
	forward(1)
	f.DECQ(f.k)
	f.JNE(LabelRef(name + "one"))
	f.Label(name + "end")
	f.finish(name)
}

// finish writes the sums, or adds them to what is there.
func (f *few) finish(name string) {
	at, ldc, add, old := f.get("c"), f.get("ldc"), f.get("add"), f.ZMM()
	f.SHLQ(Imm(2), ldc)
	f.TESTQ(add, add)
	f.JEQ(LabelRef(name + "write"))
	f.eachOfC(name+"sums", at, ldc, func(i int) {
		f.VMOVUPS(Mem{Base: at}, old)
		f.VADDPS(f.sums[i], old, f.sums[i])
	})
	f.Label(name + "write")
	f.Load(f.Param("c"), at)
	f.eachOfC(name+"written", at, ldc, func(i int) { f.VMOVUPS(f.sums[i], Mem{Base: at}) })
	f.VZEROUPPER()
	f.RET()
}

// eachOfC walks the rows of C. An odd number of them lacks the last one.
func (f *few) eachOfC(end string, at, ldc reg.GPVirtual, do func(i int)) {
	for i := range f.sums {
		if i == len(f.sums)-1 {
			rows := f.get("rows")
			f.TESTQ(I32(1), rows)
			f.JNE(LabelRef(end))
		}
		do(i)
		f.ADDQ(ldc, at)
	}
	f.Label(end)
}
