package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Predicates of VCMPPS, none of which signals.
const (
	ordered    = 7  // neither is a NaN
	notAtLeast = 25 // less, or one is a NaN
)

// pooler writes the functions of pooling for one width of vectors.
type pooler struct {
	*build.Context
	simd
	fn string // that is being written
}

// emitPool writes pooling's functions for s: those of windows of 2x2 that lie
// side by side, plane by plane.
func emitPool(c *build.Context, s simd) {
	p := &pooler{Context: c, simd: s}
	p.maxPool()
	p.maxPoolGrad()
}

func (p *pooler) begin(name, signature string, doc ...string) {
	p.fn = name + p.suffix
	p.Function(p.fn)
	p.Attributes(attr.NOSPLIT)
	p.SignatureExpr(signature)
	p.Pragma("noescape")
	p.Doc(append([]string{fmt.Sprintf("%s, with %s, %s", p.fn, p.about, doc[0])}, doc[1:]...)...)
}

func (p *pooler) get(name string) reg.GPVirtual {
	r := p.GP64()
	p.Load(p.Param(name), r)
	return r
}

func (p *pooler) wide() bool { return p.lanes == 16 }

// spread copies an integer to all lanes.
func (p *pooler) spread(r reg.GPVirtual) reg.VecVirtual {
	v := p.register(p.Context)
	if p.wide() {
		p.VPBROADCASTD(r.As32(), v)
		return v
	}
	x := p.XMM()
	p.VMOVD(r.As32(), x)
	p.VPBROADCASTD(x, v)
	return v
}

// table is a vector of constants, one for each lane.
func (p *pooler) table(name string, lane func(i int) uint32) reg.VecVirtual {
	p.StaticGlobal(p.fn + name)
	p.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range p.lanes {
		p.AddDatum(4*i, U32(lane(i)))
	}
	v := p.register(p.Context)
	p.VMOVUPS(NewDataAddr(Symbol{Name: p.fn + name, Static: true}, 0), v)
	return v
}

// mask is that of the first n lanes. n is between 1 and lanes.
func (p *pooler) mask(n reg.GPVirtual) Op {
	if p.wide() {
		bits, k := p.GP32(), p.K()
		p.MOVL(U32(0xffff), bits)
		p.BZHIL(n.As32(), bits, bits)
		p.KMOVW(bits, k)
		return k
	}
	return p.maskOf(n, 1, 0)
}

// maskOf is, in a vector, the mask of the first scale*n - from lanes.
func (p *pooler) maskOf(n reg.GPVirtual, scale, from int) reg.VecVirtual {
	at, minus, v := p.GP64(), p.GP64(), p.register(p.Context)
	p.LEAQ(maskTable(p.Context), at)
	p.MOVQ(n, minus)
	p.NEGQ(minus)
	p.VMOVUPS(Mem{Base: at, Index: minus, Scale: uint8(4 * scale), Disp: maskZeros + 4*from}, v)
	return v
}

// pairMasks are those of 2n elements in two vectors.
func (p *pooler) pairMasks(n reg.GPVirtual) [2]Op {
	if !p.wide() {
		return [2]Op{p.maskOf(n, 2, 0), p.maskOf(n, 2, p.lanes)}
	}
	twice, bits, lo, hi := p.GP64(), p.GP32(), p.K(), p.K()
	p.LEAQ(Mem{Base: n, Index: n, Scale: 1}, twice)
	p.MOVL(U32(0xffffffff), bits)
	p.BZHIL(twice.As32(), bits, bits)
	p.KMOVW(bits, lo)
	p.SHRL(Imm(16), bits)
	p.KMOVW(bits, hi)
	return [2]Op{lo, hi}
}

// fetch and put are masked if mask is not nil.
func (p *pooler) fetch(m Mem, mask Op) reg.VecVirtual {
	v := p.register(p.Context)
	switch {
	case mask == nil:
		p.VMOVUPS(m, v)
	case p.wide():
		p.VMOVUPS_Z(m, mask, v)
	default:
		p.VMASKMOVPS(m, mask, v)
	}
	return v
}

func (p *pooler) put(v reg.VecVirtual, m Mem, mask Op) {
	switch {
	case mask == nil:
		p.VMOVUPS(v, m)
	case p.wide():
		p.VMOVUPS(v, mask, m)
	default:
		p.VMASKMOVPS(v, mask, m)
	}
}

// larger replaces best and its index by e and at, in the lanes where e is larger, or
// the first NaN.
func (p *pooler) larger(best, idx, e, at reg.VecVirtual) {
	if p.wide() {
		k := p.K()
		p.VCMPPS(Imm(ordered), best, best, k)
		p.VCMPPS(Imm(notAtLeast), e, best, k, k)
		p.VMOVAPS(e, k, best)
		p.VMOVDQA32(at, k, idx)
		return
	}
	m, known := p.YMM(), p.YMM()
	p.VCMPPS(Imm(ordered), best, best, known)
	p.VCMPPS(Imm(notAtLeast), e, best, m)
	p.VANDPS(known, m, m)
	p.VBLENDVPS(m, e, best, best)
	p.VBLENDVPS(m, at, idx, idx)
}

// grid walks rows of windows: whole vectors of windows, then the rest of a row.
// body computes some, with the masks of their elements and of the windows
// themselves or nil, and advance goes on by so many windows.
func (p *pooler) grid(rows, cols reg.GPVirtual, startRow func(), body func(pair [2]Op, one Op), advance func(), nextRow func(rest reg.GPVirtual)) {
	rest, whole, left := p.GP64(), p.GP64(), p.GP64()
	p.MOVQ(cols, rest)
	p.ANDQ(Imm(uint64(p.lanes-1)), rest)
	p.MOVQ(cols, whole)
	p.SUBQ(rest, whole)
	pair, one := p.pairMasks(rest), p.mask(rest)
	p.Label("row")
	startRow()
	p.MOVQ(whole, left)
	p.TESTQ(left, left)
	p.JEQ(LabelRef("rest"))
	p.Label("whole")
	body([2]Op{}, nil)
	advance()
	p.SUBQ(Imm(uint64(p.lanes)), left)
	p.JNE(LabelRef("whole"))
	p.Label("rest")
	p.TESTQ(rest, rest)
	p.JEQ(LabelRef("next"))
	body(pair, one)
	p.Label("next")
	nextRow(rest)
	p.DECQ(rows)
	p.JNE(LabelRef("row"))
}

// evens and odds tell which elements of two vectors VPERMT2PS takes.
func evens(i int) uint32 { return uint32(2 * i) }
func odds(i int) uint32  { return uint32(2*i + 1) }

// split returns the even and the odd elements of two vectors.
func (p *pooler) split(a, b reg.VecVirtual, even, odd reg.VecVirtual) (x, y reg.VecVirtual) {
	x, y = p.register(p.Context), p.register(p.Context)
	if p.wide() {
		p.VMOVAPS(a, x)
		p.VPERMT2PS(b, even, x)
		p.VMOVAPS(a, y)
		p.VPERMT2PS(b, odd, y)
		return x, y
	}
	p.VSHUFPS(Imm(0x88), b, a, x)
	p.VPERMPD(Imm(0xd8), x, x)
	p.VSHUFPS(Imm(0xdd), b, a, y)
	p.VPERMPD(Imm(0xd8), y, y)
	return x, y
}

// maxPool goes down the window in the order of memory, so that the first of
// equals stays.
func (p *pooler) maxPool() {
	p.begin("MaxPool", "func(y *float32, idx *int32, x *float32, w, rows, cols int)",
		"writes the largest element of each window of 2x2 of a plane",
		"x of w columns, and where in the plane it is: the first of equals, or of NaNs. There are",
		"rows x cols windows, at least one.")
	y, idx, x, w := p.get("y"), p.get("idx"), p.get("x"), p.get("w")
	rows, cols := p.get("rows"), p.get("cols")
	var even, odd reg.VecVirtual
	if p.wide() {
		even, odd = p.table("Even", evens), p.table("Odd", odds)
	}
	lane := p.table("Lane", evens)
	one := p.table("One", func(int) uint32 { return 1 })
	width, at, below := p.spread(w), p.GP64(), p.GP64()
	rowPos, pos := p.register(p.Context), p.register(p.Context)
	p.VMOVAPS(lane, rowPos)
	p.SHLQ(Imm(2), w)
	start := func() {
		p.MOVQ(x, at)
		p.LEAQ(Mem{Base: x, Index: w, Scale: 1}, below)
		p.VMOVAPS(rowPos, pos)
	}
	step := p.table("Step", func(int) uint32 { return uint32(2 * p.lanes) })
	body := func(pair [2]Op, mask Op) {
		best, next := p.split(p.fetch(Mem{Base: at}, pair[0]), p.fetch(Mem{Base: at, Disp: 4 * p.lanes}, pair[1]), even, odd)
		where, place := p.register(p.Context), p.register(p.Context)
		p.VMOVAPS(pos, where)
		p.VPADDD(one, pos, place)
		p.larger(best, where, next, place)
		a, b := p.split(p.fetch(Mem{Base: below}, pair[0]), p.fetch(Mem{Base: below, Disp: 4 * p.lanes}, pair[1]), even, odd)
		p.VPADDD(width, pos, place)
		p.larger(best, where, a, place)
		p.VPADDD(one, place, place)
		p.larger(best, where, b, place)
		p.put(best, Mem{Base: y}, mask)
		p.put(where, Mem{Base: idx}, mask)
	}
	advance := func() {
		for _, r := range []reg.GPVirtual{at, below} {
			p.ADDQ(Imm(uint64(8*p.lanes)), r)
		}
		for _, r := range []reg.GPVirtual{y, idx} {
			p.ADDQ(Imm(uint64(4*p.lanes)), r)
		}
		p.VPADDD(step, pos, pos)
	}
	p.grid(rows, cols, start, body, advance, func(rest reg.GPVirtual) {
		p.LEAQ(Mem{Base: y, Index: rest, Scale: 4}, y)
		p.LEAQ(Mem{Base: idx, Index: rest, Scale: 4}, idx)
		p.LEAQ(Mem{Base: x, Index: w, Scale: 2}, x)
		p.VPADDD(width, rowPos, rowPos)
		p.VPADDD(width, rowPos, rowPos)
	})
	p.VZEROUPPER()
	p.RET()
}

// merge returns two vectors that take turns between the elements of x and y.
func (p *pooler) merge(x, y, low, high reg.VecVirtual) (a, b reg.VecVirtual) {
	a, b = p.register(p.Context), p.register(p.Context)
	if p.wide() {
		p.VMOVAPS(x, a)
		p.VPERMT2PS(y, low, a)
		p.VMOVAPS(x, b)
		p.VPERMT2PS(y, high, b)
		return a, b
	}
	lo, hi := p.YMM(), p.YMM()
	p.VUNPCKLPS(y, x, lo)
	p.VUNPCKHPS(y, x, hi)
	p.VPERM2F128(Imm(0x20), hi, lo, a)
	p.VPERM2F128(Imm(0x31), hi, lo, b)
	return a, b
}

// maxPoolGrad writes both rows of a row of windows whole, so nothing has to be
// zero before.
func (p *pooler) maxPoolGrad() {
	p.begin("MaxPoolGrad", "func(dx *float32, idx *int32, dy *float32, w, rows, cols int) int",
		"writes the rows x cols windows of 2x2 of a plane dx of w columns,",
		"at least one: 0 + dy where idx says, else zeros. It returns 1, and may have written less, if",
		"an idx is outside its window.")
	dx, idx, dy, w := p.get("dx"), p.get("idx"), p.get("dy"), p.get("w")
	rows, cols := p.get("rows"), p.get("cols")
	var low, high reg.VecVirtual
	if p.wide() {
		low = p.table("Low", func(i int) uint32 { return uint32(i/2 + i%2*16) })
		high = p.table("High", func(i int) uint32 { return uint32(8 + i/2 + i%2*16) })
	}
	pos, at, below := p.GP64(), p.GP64(), p.GP64()
	p.XORQ(pos, pos)
	lane := p.table("Lane", evens)
	column, bytes := p.GP64(), p.GP64()
	p.MOVQ(w, bytes)
	p.SHLQ(Imm(2), bytes)
	start := func() {
		p.MOVQ(dx, at)
		p.LEAQ(Mem{Base: dx, Index: bytes, Scale: 1}, below)
		p.MOVQ(pos, column)
	}
	zero, one, width := p.register(p.Context), p.table("One", func(int) uint32 { return 1 }), p.spread(w)
	p.clear(p.Context, zero)
	body := func(pair [2]Op, mask Op) {
		v, rel := p.fetch(Mem{Base: dy}, mask), p.fetch(Mem{Base: idx}, mask)
		p.VADDPS(zero, v, v)
		p.VPSUBD(p.spread(column), rel, rel)
		p.VPSUBD(lane, rel, rel)
		next := p.register(p.Context)
		p.VPADDD(one, width, next)
		places := []reg.VecVirtual{zero, one, width, next}
		var picked []reg.VecVirtual
		p.window(rel, places, v, mask, &picked)
		for i, to := range []reg.GPVirtual{at, below} {
			a, b := p.merge(picked[2*i], picked[2*i+1], low, high)
			p.put(a, Mem{Base: to}, pair[0])
			p.put(b, Mem{Base: to, Disp: 4 * p.lanes}, pair[1])
		}
	}
	advance := func() {
		for _, r := range []reg.GPVirtual{at, below} {
			p.ADDQ(Imm(uint64(8*p.lanes)), r)
		}
		for _, r := range []reg.GPVirtual{dy, idx} {
			p.ADDQ(Imm(uint64(4*p.lanes)), r)
		}
		p.ADDQ(Imm(uint64(2*p.lanes)), column)
	}
	p.grid(rows, cols, start, body, advance, func(rest reg.GPVirtual) {
		p.LEAQ(Mem{Base: dy, Index: rest, Scale: 4}, dy)
		p.LEAQ(Mem{Base: idx, Index: rest, Scale: 4}, idx)
		p.LEAQ(Mem{Base: dx, Index: bytes, Scale: 2}, dx)
		p.LEAQ(Mem{Base: pos, Index: w, Scale: 2}, pos)
	})
	p.leave(0)
	p.Label("outside")
	p.leave(1)
}

// leave returns a number.
func (p *pooler) leave(n uint32) {
	r := p.GP64()
	p.MOVQ(U32(n), r)
	p.Store(r, p.ReturnIndex(0))
	p.VZEROUPPER()
	p.RET()
}

// window appends to picked, for each element of a window, v where rel is its offset,
// and zeros elsewhere. It leaves the function if rel is none of them.
func (p *pooler) window(rel reg.VecVirtual, places []reg.VecVirtual, v reg.VecVirtual, mask Op, picked *[]reg.VecVirtual) {
	bits, want := p.GP32(), p.GP32()
	if p.wide() {
		all := p.K()
		p.KXORW(all, all, all)
		for _, place := range places {
			k, x := p.K(), p.ZMM()
			p.VPCMPEQD(place, rel, k)
			p.KORW(k, all, all)
			p.VMOVAPS_Z(v, k, x)
			*picked = append(*picked, x)
		}
		p.MOVL(U32(0xffff), want)
		if mask != nil {
			p.KMOVW(mask, want.As32())
			p.KANDW(mask, all, all)
		}
		p.KMOVW(all, bits)
	} else {
		all := p.YMM()
		p.VXORPS(all, all, all)
		for _, place := range places {
			x := p.YMM()
			p.VPCMPEQD(place, rel, x)
			p.VORPS(x, all, all)
			p.VANDPS(v, x, x)
			*picked = append(*picked, x)
		}
		p.MOVL(U32(0xff), want)
		if mask != nil {
			p.VANDPS(mask, all, all)
			p.VMOVMSKPS(mask, want)
		}
		p.VMOVMSKPS(all, bits)
	}
	p.CMPL(bits, want)
	p.JNE(LabelRef("outside"))
}
