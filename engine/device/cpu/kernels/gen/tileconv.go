package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitTileConv writes the inner kernels of convolutions with AMX, of float32 in
// three parts of bfloat16, and the copies that split their operands.
func emitTileConv(c *build.Context) {
	emitWindows(c, 2)
	emitWindows(c, 1)
	emitSplitChannels(c)
}

// pixelsBytes is what says of 16 pixels where they are.
const pixelsBytes = 32

// emitWindows writes the inner kernel for y: rows are channels out, steps of k are
// taps of 32 channels in, and columns are pixels.
func emitWindows(c *build.Context, rows int) {
	name := fmt.Sprintf("Windows%d", rows)
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(shapes *byte, y *float32, py int, a *float32, x *float32, plane, part int, taps *int, at *int, rows, pairs, k, add int, sums *float32)")
	c.Pragma("noescape")
	c.Doc(fmt.Sprintf("%s computes %s channels of a convolution of float32, each in three parts of bfloat16, with AMX, for", name, upTo(rows)),
		"pairs of 16 pixels. a is a panel of weights for k taps of 32 channels of x. x holds pairs of channels, plane places",
		"of float32 apart, and its parts, part places apart; taps is where in x taps are. at is four numbers for 16 pixels:",
		"where they are in x, where the first that counts is in y, a mask of those that count, and one of as many low bits.",
		"A channel of y has py places. With add 1 and not 0, the results are added to y. sums is room for 32x32 numbers.")
	t := windows{tiles: tiles{Context: c, rows: rows, cols: 2, parts: 3}}
	t.emit()
}

// windows is an inner kernel of a convolution that is being written. The sums of a
// pair are written while the tiles are busy with the next one's first tap.
type windows struct {
	tiles
	plane, part, line reg.GPVirtual
}

// slot is the memory of an argument, which is the callee's.
func (t *windows) slot(name string) Mem {
	b, err := t.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

func (t *windows) emit() {
	shapes := t.load("shapes")
	amx(t.Context, "LDTILECFG", Mem{Base: shapes})
	t.plane, t.part, t.line = t.load("plane"), t.load("part"), t.GP64()
	t.SHLQ(Imm(2), t.plane)
	t.SHLQ(Imm(2), t.part)
	t.MOVQ(I32(tileRow), t.line)
	at, last, end, left := t.load("at"), t.GP64(), t.slot("k"), t.slot("pairs")
	t.XORQ(last, last)
	ends, n := t.load("taps"), t.load("k")
	t.LEAQ(Mem{Base: ends, Index: n, Scale: 8}, ends)
	t.MOVQ(ends, end)
	t.NEGQ(t.slot("add")) // a mask
	t.Label("pair")
	for i := range t.rows * 2 {
		amx(t.Context, "TILEZERO", U8(uint8(i)))
	}
	var x, p [2]reg.GPVirtual
	for j := range x {
		x[j], p[j] = t.load("x"), t.GP64()
		from := t.GP64()
		t.MOVQ(Mem{Base: at, Disp: j * pixelsBytes}, from)
		t.LEAQ(Mem{Base: x[j], Index: from, Scale: 4}, x[j])
	}
	a, taps, tap := t.load("a"), t.load("taps"), t.GP64()
	t.Label("tap")
	t.MOVQ(Mem{Base: taps}, tap)
	for j := range x {
		t.LEAQ(Mem{Base: x[j], Index: tap, Scale: 4}, p[j])
	}
	t.step(a, p)
	t.TESTQ(last, last)
	t.JEQ(LabelRef("next"))
	t.Label("write")
	t.write(last)
	t.XORQ(last, last)
	t.CMPQ(left, Imm(0))
	t.JEQ(LabelRef("done"))
	t.Label("next")
	t.ADDQ(Imm(8), taps)
	t.ADDQ(I32(stepBytes(3)), a)
	t.CMPQ(taps, end)
	t.JNE(LabelRef("tap"))
	sums, below := t.load("sums"), t.GP64()
	t.ADDQ(t.line, t.line)
	t.store(sums, t.line, below)
	t.SHRQ(Imm(1), t.line)
	t.MOVQ(at, last)
	t.ADDQ(Imm(2*pixelsBytes), at)
	t.DECQ(left)
	t.JNE(LabelRef("pair"))
	t.JMP(LabelRef("write"))
	t.Label("done")
	amx(t.Context, "TILERELEASE")
	t.VZEROUPPER()
	t.RET()
}

// step adds the products of a tap of 32 channels of pixels that are at p.
func (t *windows) step(a reg.GPVirtual, p [2]reg.GPVirtual) {
	last := [2]int{-1, -1}
	for _, parts := range windowSplits {
		for i := 0; parts[0] != last[0] && i < t.rows; i++ {
			amx(t.Context, "TILELOADD", Mem{Base: a, Index: t.line, Scale: 1, Disp: (2*parts[0] + i) * tileBytes}, U8(uint8(tileA+i)))
		}
		for j := 0; parts[1] != last[1] && j < 2; j++ {
			from := p[j]
			if parts[1] > 0 {
				from = t.GP64()
				t.LEAQ(Mem{Base: p[j], Index: t.part, Scale: uint8(parts[1])}, from)
			}
			amx(t.Context, "TILELOADD", Mem{Base: from, Index: t.plane, Scale: 1}, U8(uint8(tileB+j)))
		}
		for i := range t.rows {
			for j := range 2 {
				amx(t.Context, "TDPBF16PS", U8(uint8(tileA+i)), U8(uint8(tileB+j)), U8(uint8(2*i+j)))
			}
		}
		last = parts
	}
}

// write writes the sums of a pair of 16 pixels, or adds them to y.
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
	}
	t.ADDQ(py, y[0])
	for ahead := range 3 {
		t.PREFETCHT0(Mem{Base: y[1], Disp: ahead * tileRow})
	}
	t.ADDQ(py, y[1])
	t.ADDQ(I32(2*tileRow), sums)
	t.DECQ(rows)
	t.JNE(LabelRef("row"))
}

// emitSplitChannels writes the copy of two channels to a plane of pairs.
func emitSplitChannels(c *build.Context) {
	c.Function("SplitChannels")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, part int, first, second *float32, n int) uint32")
	c.Pragma("noescape")
	c.Doc("SplitChannels splits n numbers of two channels each, n a multiple of 16, into three parts of bfloat16 with AVX-512: a",
		"part is n pairs, and parts are part places of float32 apart. It returns 0 unless it met numbers that round to an",
		"infinity, or are none.")
	t := tiles{Context: c, parts: 3}
	dst, part, first, second, n := t.load("dst"), t.load("part"), t.load("first"), t.load("second"), t.load("n")
	s := newSplitter(c, 3)
	c.SHLQ(Imm(2), part)
	c.Label("pairs")
	a, b := c.ZMM(), c.ZMM()
	c.VMOVUPS(Mem{Base: first}, a)
	c.VMOVUPS(Mem{Base: second}, b)
	for i, v := range s.joined(a, b) {
		to := Mem{Base: dst}
		if i > 0 {
			to = Mem{Base: dst, Index: part, Scale: uint8(i)}
		}
		c.VMOVDQU32(v, to)
	}
	c.ADDQ(Imm(64), first)
	c.ADDQ(Imm(64), second)
	c.ADDQ(Imm(64), dst)
	c.SUBQ(Imm(16), n)
	c.JGT(LabelRef("pairs"))
	s.end()
}

// windowSplits are splits in an order that loads x, which is not aligned, the
// fewest times.
var windowSplits = [][2]int{{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}}
