package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitConvAMX writes the inner kernels of convolutions with AMX, on float32 as three
// terms of bfloat16, and the copies that split their operands.
func emitConvAMX(c *build.Context) {
	emitWindows(c, 2)
	emitWindows(c, 1)
	emitPixels(c)
	emitSplitChannels(c)
	emitSplitPixels(c)
}

// pixelsBytes is the bytes of one tile's entry in a table of pixels.
const pixelsBytes = 32

// emitWindows writes the inner kernel of y: rows are channels out, steps of k are taps
// of 32 channels in, and columns are pixels.
func emitWindows(c *build.Context, rows int) {
	name := fmt.Sprintf("Windows%d", rows)
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(shapes *byte, y *float32, py int, panel, x *float32, plane, term int, at, steps *int, rows, pairs, k, add int, sums *float32)")
	c.Pragma("noescape")
	c.Doc(fmt.Sprintf("%s computes %s channels of a convolution of float32, each as three terms of bfloat16, with AMX, for", name, upTo(rows)),
		"pairs of tiles of 16 pixels. panel is weights for k taps of 32 channels of x. x has planes of pairs of channels,",
		"plane words apart, and three terms, term words apart; steps is the offsets of taps in x. at has four numbers for a",
		"tile: the offset of its pixels in x, the offset in y of the first pixel that counts, a mask of the pixels that",
		"count, and a mask of as many low bits. A channel of y has py words. With add 1, not 0, the results are added to y.",
		"sums has room for 32x32 numbers.")
	t := windows{tiles: tiles{Context: c, rows: rows, cols: 2, terms: 3}, moved: 1, scale: 4, atBytes: pixelsBytes}
	t.begin()
	t.NEGQ(t.slot("add")) // a mask
	t.loop(t.write, func(at, done reg.GPVirtual) { t.MOVQ(at, done) })
}

// windows is an inner kernel of a convolution that is being written. One factor is a
// panel; the other one's tiles lie anywhere in planes. The sums of a pair of tiles are
// written while the tiles are busy with the first step of the next pair.
type windows struct {
	tiles
	moved             int   // the factor in planes: 0 for A and 1 for B
	scale             uint8 // bytes that an offset in a plane counts
	atBytes           int   // bytes of a tile's entry in the table at
	plane, term, line reg.GPVirtual
}

// begin loads the arguments that stay in registers.
func (t *windows) begin() {
	shapes := t.load("shapes")
	amx(t.Context, "LDTILECFG", Mem{Base: shapes})
	t.plane, t.term, t.line = t.load("plane"), t.load("term"), t.GP64()
	t.SHLQ(Imm(2), t.plane)
	t.SHLQ(Imm(2), t.term)
	t.MOVQ(I32(tileRow), t.line)
}

// clear makes all sums zero.
func (t *windows) clear() {
	for i := range t.rows * 2 {
		amx(t.Context, "TILEZERO", U8(uint8(i)))
	}
}

// keep stores the sums in the memory for them.
func (t *windows) keep(room string) {
	sums, below := t.load(room), t.GP64()
	t.ADDQ(t.line, t.line)
	t.store(sums, t.line, below)
	t.SHRQ(Imm(1), t.line)
}

// slot is the memory of an argument, which is the callee's.
func (t *windows) slot(name string) Mem {
	b, err := t.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// loop goes through pairs of tiles. write writes the kept sums to the address in done,
// which next has set.
func (t *windows) loop(write func(done reg.GPVirtual), next func(at, done reg.GPVirtual)) {
	at, done, end, left := t.load("at"), t.GP64(), t.slot("k"), t.slot("pairs")
	t.XORQ(done, done)
	ends, n := t.load("steps"), t.load("k")
	t.LEAQ(Mem{Base: ends, Index: n, Scale: 8}, ends)
	t.MOVQ(ends, end)
	t.Label("pair")
	t.clear()
	x, p := t.starts(at)
	panel, steps, from := t.load("panel"), t.load("steps"), t.GP64()
	t.Label("step")
	t.MOVQ(Mem{Base: steps}, from)
	for j := range x {
		t.LEAQ(Mem{Base: x[j], Index: from, Scale: t.scale}, p[j])
	}
	t.step(panel, p)
	t.TESTQ(done, done)
	t.JEQ(LabelRef("next"))
	t.Label("write")
	write(done)
	t.XORQ(done, done)
	t.CMPQ(left, Imm(0))
	t.JEQ(LabelRef("end"))
	t.Label("next")
	t.ADDQ(Imm(8), steps)
	t.ADDQ(I32(stepBytes(3)), panel)
	t.CMPQ(steps, end)
	t.JNE(LabelRef("step"))
	t.keep("sums")
	next(at, done)
	t.ADDQ(Imm(uint64(2*t.atBytes)), at)
	t.DECQ(left)
	t.JNE(LabelRef("pair"))
	t.JMP(LabelRef("write"))
	t.Label("end")
	amx(t.Context, "TILERELEASE")
	t.VZEROUPPER()
	t.RET()
}

// starts is the addresses of two tiles: of their pair, and of a step of it.
func (t *windows) starts(at reg.GPVirtual) (x, p [2]reg.GPVirtual) {
	for j := range x {
		x[j], p[j] = t.load("x"), t.GP64()
		from := t.GP64()
		t.MOVQ(Mem{Base: at, Disp: j * t.atBytes}, from)
		t.LEAQ(Mem{Base: x[j], Index: from, Scale: t.scale}, x[j])
	}
	return x, p
}

// windowSplits are the terms of the panel and of the tiles in planes whose products are
// added, in the order that loads the latter, which are not aligned, the fewest times.
var windowSplits = [][2]int{{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}}

// step adds the products of 32 steps of k, of tiles at p and a panel.
func (t *windows) step(panel reg.GPVirtual, p [2]reg.GPVirtual) {
	fixed, first, last := 1-t.moved, [2]int{tileA, tileB}, [2]int{-1, -1}
	for _, terms := range windowSplits {
		for i := 0; terms[0] != last[0] && i < [2]int{t.rows, 2}[fixed]; i++ {
			amx(t.Context, "TILELOADD", Mem{Base: panel, Index: t.line, Scale: 1, Disp: (2*terms[0] + i) * tileBytes}, U8(uint8(first[fixed]+i)))
		}
		for j := 0; terms[1] != last[1] && j < 2; j++ {
			from := p[j]
			if terms[1] > 0 {
				from = t.GP64()
				t.LEAQ(Mem{Base: p[j], Index: t.term, Scale: uint8(terms[1])}, from)
			}
			amx(t.Context, "TILELOADD", Mem{Base: from, Index: t.plane, Scale: 1}, U8(uint8(first[t.moved]+j)))
		}
		for i := range t.rows {
			for j := range 2 {
				amx(t.Context, "TDPBF16PS", U8(uint8(tileA+i)), U8(uint8(tileB+j)), U8(uint8(2*i+j)))
			}
		}
		last = terms
	}
}

// write writes the sums of a pair of tiles of 16 pixels, or adds them to y.
func (t *windows) write(at reg.GPVirtual) {
	var y [2]reg.GPVirtual
	var count, low, old [2]reg.OpmaskVirtual
	for j := range y {
		y[j], count[j], low[j], old[j] = t.load("y"), t.K(), t.K(), t.K()
		to, bits := t.GP64(), t.GP64()
		t.MOVQ(Mem{Base: at, Disp: j*pixelsBytes + 8}, to)
		t.LEAQ(Mem{Base: y[j], Index: to, Scale: 4}, y[j])
		t.KMOVW(Mem{Base: at, Disp: j*pixelsBytes + 16}, count[j])
		t.MOVQ(Mem{Base: at, Disp: j*pixelsBytes + 24}, bits)
		t.KMOVW(bits.As32(), low[j])
		t.ANDQ(t.slot("add"), bits)
		t.KMOVW(bits.As32(), old[j])
	}
	sums, py := t.load("sums"), t.load("py")
	t.SHLQ(Imm(2), py)
	rows := t.load("rows")
	t.Label("row")
	var z [2]reg.VecVirtual
	for j := range y { // loads first: a store holds up loads of what it masks off, too
		was := t.ZMM()
		z[j] = t.ZMM()
		t.VMOVUPS(Mem{Base: sums, Disp: j * tileRow}, z[j])
		t.VCOMPRESSPS_Z(z[j], count[j], z[j])
		t.VMOVUPS_Z(Mem{Base: y[j]}, old[j], was)
		t.VADDPS(was, z[j], z[j])
	}
	for j := range y {
		t.VMOVUPS(z[j], low[j], Mem{Base: y[j]})
		t.ADDQ(py, y[j])
	}
	t.ADDQ(I32(2*tileRow), sums)
	t.DECQ(rows)
	t.JNE(LabelRef("row"))
}

// emitSplitChannels writes the copy of two channels to a plane of pairs.
func emitSplitChannels(c *build.Context) {
	c.Function("SplitChannels")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, term int, first, second *float32, n int) uint32")
	c.Pragma("noescape")
	c.Doc("SplitChannels splits n numbers of two channels each, n a multiple of 16, into three terms of bfloat16 with AVX-512: a",
		"term is n pairs, and terms are term words apart. It returns 0 unless it met unsplittable values.")
	t := tiles{Context: c, terms: 3}
	dst, term, first, second, n := t.load("dst"), t.load("term"), t.load("first"), t.load("second"), t.load("n")
	s := newSplitter(c, 3)
	c.SHLQ(Imm(2), term)
	c.Label("pairs")
	a, b := c.ZMM(), c.ZMM()
	c.VMOVUPS(Mem{Base: first}, a)
	c.VMOVUPS(Mem{Base: second}, b)
	s.apart(a, b, dst, term)
	c.ADDQ(Imm(64), first)
	c.ADDQ(Imm(64), second)
	c.ADDQ(Imm(64), dst)
	c.SUBQ(Imm(16), n)
	c.JGT(LabelRef("pairs"))
	s.end()
}

// emitPixels writes the inner kernel of dw: rows are channels in at a tap, steps of k
// are pixels, and columns are channels out.
func emitPixels(c *build.Context) {
	c.Function("Pixels")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(shapes *byte, dw, panel, x *float32, plane, term int, at, steps *int, pairs, k int, sums *float32)")
	c.Pragma("noescape")
	c.Doc("Pixels computes the gradient of a convolution's weights, of float32 as three terms of bfloat16 each, with AMX, and adds",
		"it to dw: for pairs of 16 channels of x at a tap, 32x32 numbers each. x has planes of bfloat16, plane words apart, and",
		"three terms, term words apart. at has the offset of each 16 channels at a tap, and steps the offset from there of k",
		"times 32 pixels, both in bfloat16 numbers. panel is dy. sums has room for 32x32 numbers.")
	t := windows{tiles: tiles{Context: c, rows: 2, cols: 2, terms: 3}, scale: 2, atBytes: 8}
	t.begin()
	t.loop(t.addTo, func(_, done reg.GPVirtual) {
		t.MOVQ(t.slot("dw"), done)
		t.ADDQ(I32(4*tileBytes), t.slot("dw"))
	})
}

// addTo adds the kept sums to 32x32 numbers.
func (t *windows) addTo(to reg.GPVirtual) {
	sums, left := t.load("sums"), t.GP64()
	t.MOVQ(I32(4*tileBytes/128), left)
	t.Label("row")
	for j := range 2 {
		z := t.ZMM()
		t.VMOVUPS(Mem{Base: sums, Disp: j * tileRow}, z)
		t.VADDPS(Mem{Base: to, Disp: j * tileRow}, z, z)
		t.VMOVUPS(z, Mem{Base: to, Disp: j * tileRow})
	}
	t.ADDQ(I32(2*tileRow), sums)
	t.ADDQ(I32(2*tileRow), to)
	t.DECQ(left)
	t.JNE(LabelRef("row"))
}

// apart stores the terms of two vectors, joined, so many bytes apart.
func (s *splitter) apart(earlier, later reg.VecVirtual, dst, term reg.GPVirtual) {
	for i, v := range s.joined(earlier, later) {
		to := Mem{Base: dst}
		if i > 0 {
			to = Mem{Base: dst, Index: term, Scale: uint8(i)}
		}
		s.c.VMOVDQU32(v, to)
	}
}

// emitSplitPixels writes the copy of a row in the order of memory.
func emitSplitPixels(c *build.Context) {
	c.Function("SplitPixels")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, term, step int, src *float32, n int) uint32")
	c.Pragma("noescape")
	c.Doc("SplitPixels splits n numbers, a multiple of 32, into three terms of bfloat16 with AVX-512, 32 numbers in a row: rows are",
		"step words apart, and terms term words. It returns 0 unless it met unsplittable",
		"values.")
	t := tiles{Context: c, terms: 3}
	dst, term, step, src, n := t.load("dst"), t.load("term"), t.load("step"), t.load("src"), t.load("n")
	s := newSplitter(c, 3)
	c.SHLQ(Imm(2), term)
	c.SHLQ(Imm(2), step)
	var order [2]reg.VecVirtual // of every other number, from the first and the second on
	for i := range order {
		order[i] = c.ZMM()
		c.VMOVDQU32(everyOther(c, i), order[i])
	}
	c.Label("row")
	a, b := c.ZMM(), c.ZMM()
	c.VMOVUPS(Mem{Base: src}, a)
	c.VMOVUPS(Mem{Base: src, Disp: 64}, b)
	var halves [2]reg.VecVirtual
	for i := range halves {
		halves[i] = c.ZMM()
		c.VMOVDQU32(order[i], halves[i])
		c.VPERMI2PS(b, a, halves[i])
	}
	s.apart(halves[0], halves[1], dst, term)
	c.ADDQ(Imm(128), src)
	c.ADDQ(step, dst)
	c.SUBQ(Imm(32), n)
	c.JGT(LabelRef("row"))
	s.end()
}

// everyOther is the indices of every other one of 32 numbers.
func everyOther(c *build.Context, first int) Mem {
	name := fmt.Sprint("from", first)
	c.StaticGlobal(name)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 16 {
		c.AddDatum(4*i, U32(uint32(2*i+first)))
	}
	return NewDataAddr(Symbol{Name: name, Static: true}, 0)
}
