package main

import (
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitPoolWindow writes pooling's functions for windows of any size, which overlap.
// Each takes one tap, an element of every window, for all windows of a plane. Windows
// start at neighbouring elements (Each), at every other element (Other), or any step
// apart (Apart), where their elements are gathered.
func emitPoolWindow(c *build.Context, s simd) {
	p := &pooler{Context: c, simd: s}
	for _, step := range []int{1, 2, anyStep} {
		p.maxTap(step)
		p.addTap(step)
	}
	p.spreadTap()
}

// anyStep stands for a step that is an argument.
const anyStep = 0

// tap is shared by the functions of a tap: masks of elements for the rest of a row, and
// for whole vectors the masks of every other element, whose last is not there to be
// read.
type tap struct {
	*pooler
	step         int
	one          Op    // of the rest
	pair, whole  [2]Op // of every other element of the rest, and of all
	even         reg.VecVirtual
	lane, ahead  reg.VecVirtual // elements from the first window to each, and to the next vector's
	places       reg.VecVirtual // of any step: where the windows' elements are
	rows, cols   reg.GPVirtual
	rest, filled reg.GPVirtual // columns in the last vector, and before it
}

func (p *pooler) newTap(step int) *tap {
	t := &tap{pooler: p, step: step, rows: p.get("rows"), cols: p.get("cols"), rest: p.GP64(), filled: p.GP64()}
	p.MOVQ(t.cols, t.rest)
	p.ANDQ(Imm(uint64(p.lanes-1)), t.rest)
	p.MOVQ(t.cols, t.filled)
	p.SUBQ(t.rest, t.filled)
	n, one := p.GP64(), p.GP64() // masks of nothing are not used, nor made
	p.MOVQ(t.rest, n)
	p.MOVQ(U32(1), one)
	p.TESTQ(n, n)
	p.CMOVQEQ(one, n)
	t.one = p.mask(n)
	switch step {
	case 1:
		return t
	case anyStep:
		t.setLanes()
		t.places = p.register(p.Context)
		return t
	}
	if !p.wide() {
		t.pair = [2]Op{p.maskOf(n, 2, 1), p.maskOf(n, 2, p.lanes+1)}
		all := p.GP64()
		p.MOVQ(U32(uint32(p.lanes)), all)
		t.whole[1] = p.maskOf(all, 1, 1)
		return t
	}
	bits, lo, hi, most := p.GP32(), p.K(), p.K(), p.K()
	p.LEAQ(Mem{Base: n, Index: n, Scale: 1, Disp: -1}, n)
	p.MOVL(U32(0xffffffff), bits)
	p.BZHIL(n.As32(), bits, bits)
	p.KMOVW(bits, lo)
	p.SHRL(Imm(16), bits)
	p.KMOVW(bits, hi)
	p.MOVL(U32(0x7fff), bits)
	p.KMOVW(bits, most)
	t.pair, t.whole = [2]Op{lo, hi}, [2]Op{nil, most}
	t.even = p.table("Even", evens)
	return t
}

// setLanes makes lane and ahead.
func (t *tap) setLanes() {
	step := t.step
	if step == anyStep {
		step = 1
	}
	t.lane = t.table("Lane", func(i int) uint32 { return uint32(i * step) })
	t.ahead = t.table("Ahead", func(int) uint32 { return uint32(t.lanes * step) })
	if t.step == anyStep {
		apart := t.spread(t.get("step"))
		t.VPMULLD(apart, t.lane, t.lane)
		t.VPMULLD(apart, t.ahead, t.ahead)
	}
}

// masks are those of two vectors of neighbours, and that of their even elements.
func (t *tap) masks(rest bool) (pair [2]Op, one Op) {
	if rest {
		return t.pair, t.one
	}
	return t.whole, nil
}

// read is the elements of a vector of windows, from an address on.
func (t *tap) read(at reg.GPVirtual, rest bool) reg.VecVirtual {
	pair, one := t.masks(rest)
	switch t.step {
	case 1:
		return t.fetch(Mem{Base: at}, one)
	case anyStep:
		return t.gather(at, one)
	}
	a, b := t.fetch(Mem{Base: at}, pair[0]), t.fetch(Mem{Base: at, Disp: 4 * t.lanes}, pair[1])
	if t.wide() {
		t.VPERMT2PS(b, t.even, a)
		return a
	}
	v := t.register(t.Context)
	t.VSHUFPS(Imm(0x88), b, a, v)
	t.VPERMPD(Imm(0xd8), v, v)
	return v
}

// gather is the elements of a vector of windows any step apart, of a row that
// begins at an address.
func (t *tap) gather(row reg.GPVirtual, one Op) reg.VecVirtual {
	v, from := t.register(t.Context), Mem{Base: row, Index: t.places, Scale: 4}
	t.clear(t.Context, v)
	if t.wide() {
		k := t.K()
		if one == nil {
			t.KXNORW(k, k, k)
		} else {
			t.KMOVW(one, k)
		}
		t.VGATHERDPS(from, k, v)
	} else {
		mask := t.register(t.Context)
		if one == nil {
			t.VPCMPEQD(mask, mask, mask)
		} else {
			t.VMOVUPS(one, mask)
		}
		t.VGATHERDPS(mask, from, v)
	}
	t.VPADDD(t.ahead, t.places, t.places)
	return v
}

// grid walks rows of windows, at arrays that advance by so many elements for
// each window, and by strides, in bytes, from row to row.
func (t *tap) grid(arrays, strides []reg.GPVirtual, sizes []int, startRow func(), body func(at []reg.GPVirtual, rest bool), endRow func()) {
	at := make([]reg.GPVirtual, len(arrays))
	for i := range at {
		at[i] = t.GP64()
	}
	left := t.GP64()
	t.Label("row")
	for i, a := range arrays {
		t.MOVQ(a, at[i])
	}
	if t.step == anyStep {
		t.VMOVUPS(t.lane, t.places)
	}
	startRow()
	t.MOVQ(t.filled, left)
	t.TESTQ(left, left)
	t.JEQ(LabelRef("rest"))
	t.Label("whole")
	body(at, false)
	for i, a := range at {
		if sizes[i] > 0 {
			t.ADDQ(count(4*t.lanes*sizes[i]), a)
		}
	}
	t.SUBQ(Imm(uint64(t.lanes)), left)
	t.JNE(LabelRef("whole"))
	t.Label("rest")
	t.TESTQ(t.rest, t.rest)
	t.JEQ(LabelRef("next"))
	body(at, true)
	t.Label("next")
	for i, a := range arrays {
		t.ADDQ(strides[i], a)
	}
	endRow()
	t.DECQ(t.rows)
	t.JNE(LabelRef("row"))
	t.VZEROUPPER()
	t.RET()
}

// stride is an argument that counts elements, as bytes.
func (t *tap) stride(name string) reg.GPVirtual {
	r := t.get(name)
	t.SHLQ(Imm(2), r)
	return r
}

// suffixOf names functions by the distance of windows.
func suffixOf(step int) string { return []string{anyStep: "Apart", 1: "Each", 2: "Other"}[step] }

// signatureOf has step in front where it is an argument.
func signatureOf(step int, params string) string {
	if step == anyStep {
		params = "step int, " + params
	}
	return "func(" + params + ")"
}

// maxTap keeps the larger element, so that of equals the first tap's stays.
func (p *pooler) maxTap(step int) {
	p.begin("MaxTap"+suffixOf(step), signatureOf(step, "y *float32, idx *int32, ystride int, x *float32, xstride, rows, cols, at int"),
		"replaces, in rows x cols windows, y by an element of x",
		"that is larger, or the first NaN, and idx by where it is: at for the first. There is a window.")
	t := p.newTap(step)
	y, idx, x, at := p.get("y"), p.get("idx"), p.get("x"), p.get("at")
	ystride, xstride, columns := t.stride("ystride"), t.stride("xstride"), p.get("xstride")
	if step != anyStep {
		t.setLanes()
	}
	pos := p.register(p.Context)
	t.grid([]reg.GPVirtual{y, idx, x}, []reg.GPVirtual{ystride, ystride, xstride}, []int{1, 1, step}, func() {
		p.VPADDD(p.spread(at), t.lane, pos)
	}, func(at []reg.GPVirtual, rest bool) {
		_, one := t.masks(rest)
		best, places, e := p.fetch(Mem{Base: at[0]}, one), p.fetch(Mem{Base: at[1]}, one), t.read(at[2], rest)
		p.larger(best, places, e, pos)
		p.put(best, Mem{Base: at[0]}, one)
		p.put(places, Mem{Base: at[1]}, one)
		if !rest {
			p.VPADDD(t.ahead, pos, pos)
		}
	}, func() { p.ADDQ(columns, at) })
}

func (p *pooler) addTap(step int) {
	p.begin("AddTap"+suffixOf(step), signatureOf(step, "y *float32, ystride int, x *float32, xstride, rows, cols int"),
		"adds an element of x to y in each of rows x cols windows.", "There is a window.")
	t := p.newTap(step)
	y, x, ystride, xstride := p.get("y"), p.get("x"), t.stride("ystride"), t.stride("xstride")
	t.grid([]reg.GPVirtual{y, x}, []reg.GPVirtual{ystride, xstride}, []int{1, step}, func() {}, func(at []reg.GPVirtual, rest bool) {
		_, one := t.masks(rest)
		v := t.read(at[1], rest)
		p.VADDPS(p.fetch(Mem{Base: at[0]}, one), v, v)
		p.put(v, Mem{Base: at[0]}, one)
	}, func() {})
}

// spreadTap adds zeros to the elements between.
func (p *pooler) spreadTap() {
	p.begin("SpreadTap", "func(y *float32, ystride int, x *float32, xstride, rows, cols int)",
		"adds cols elements of each of rows of x to every other",
		"element of y. There is an element.")
	t := p.newTap(2)
	y, x, ystride, xstride := p.get("y"), p.get("x"), t.stride("ystride"), t.stride("xstride")
	var low, high reg.VecVirtual
	if p.wide() {
		low = p.table("Low", func(i int) uint32 { return uint32(i/2 + i%2*16) })
		high = p.table("High", func(i int) uint32 { return uint32(8 + i/2 + i%2*16) })
	}
	zero := p.register(p.Context)
	p.clear(p.Context, zero)
	t.grid([]reg.GPVirtual{y, x}, []reg.GPVirtual{ystride, xstride}, []int{2, 1}, func() {}, func(at []reg.GPVirtual, rest bool) {
		pair, one := t.masks(rest)
		a, b := p.merge(p.fetch(Mem{Base: at[1]}, one), zero, low, high)
		for i, v := range []reg.VecVirtual{a, b} {
			m := Mem{Base: at[0], Disp: 4 * p.lanes * i}
			p.VADDPS(p.fetch(m, pair[i]), v, v)
			p.put(v, m, pair[i])
		}
	}, func() {})
}
