package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// emitRandom writes the functions of random numbers for one width.
func emitRandom(c *build.Context, s simd) {
	l := &lang{c, s, map[string]bool{}}
	l.define("DropFactors", "func(dst *float32, groups int, c0, c1, step, k0, k1, least, factor uint32)",
		"writes the dropout factors of groups of "+fmt.Sprint(4*s.lanes)+" elements: factor, the bits of a float32, where the",
		"upper 24 bits of an element's random word are at least least, and otherwise 0. Four elements",
		"share a counter of Philox4x32-10 with the key k0, k1; the first is c0, c1, step, 0. c0 must",
		"not overflow.")
	dst, groups := l.param("dst"), l.param("groups")
	counter := l.spread("c0")
	l.VPADDD(l.laneOrder(), counter, counter)
	l.Label("group")
	words := l.philox(counter)
	least, factor := l.spread("least"), l.spread("factor")
	for i, w := range l.interleave(words) {
		l.VPSRLD(Imm(8), w, w)
		l.VPSUBD(least, w, w)
		l.VPSRAD(Imm(31), w, w) // ones where it is less
		l.VANDNPS(factor, w, w)
		l.VMOVUPS(w, Mem{Base: dst, Disp: 4 * l.lanes * i})
	}
	l.VPADDD(l.bits(uint32(l.lanes)), counter, counter)
	l.ADDQ(U32(uint32(16*l.lanes)), dst)
	l.DECQ(groups)
	l.JNE(LabelRef("group"))
	l.done()
}

// laneOrder is which counter each lane has, so that interleave gives them in
// order: lane s of the 128-bit part p has number s*parts+p.
func (l *lang) laneOrder() Mem {
	const name = "order"
	l.StaticGlobal(name)
	l.DataAttributes(attr.RODATA | attr.NOPTR)
	parts := l.lanes / 4
	for lane := range l.lanes {
		l.AddDatum(4*lane, U32(uint32(lane%4*parts+lane/4)))
	}
	return NewDataAddr(Symbol{Name: name, Static: true}, 0)
}

// philox is the four words of each lane's counter.
func (l *lang) philox(counter value) [4]value {
	c := [4]value{l.copy(counter), l.spread("c1"), l.spread("step"), l.zero()}
	k0, k1 := l.spread("k0"), l.spread("k1")
	for round := range 10 {
		if round > 0 {
			l.VPADDD(l.bits(0x9E3779B9), k0, k0)
			l.VPADDD(l.bits(0xBB67AE85), k1, k1)
		}
		h0, l0 := l.product(c[0], 0xD2511F53)
		h1, l1 := l.product(c[2], 0xCD9E8D57)
		c = [4]value{l.xor(l.xor(h1, c[1]), k0), l1, l.xor(l.xor(h0, c[3]), k1), l0}
	}
	return c
}

// product is the upper and the lower words of each lane times a constant.
func (l *lang) product(a value, by uint32) (high, low value) {
	even, odd, low := l.register(l.Context), l.register(l.Context), l.register(l.Context)
	l.VPSRLQ(Imm(32), a, odd)
	l.VPMULUDQ(l.bits(by), odd, odd)
	l.VPMULUDQ(l.bits(by), a, even)
	l.VPMULLD(l.bits(by), a, low)
	l.VPSRLQ(Imm(32), even, even)
	return l.or(even, l.and(odd, l.oddLanes())), low
}

// oddLanes has ones in the odd lanes.
func (l *lang) oddLanes() Mem {
	const name = "odd"
	if !l.constants[name] {
		l.constants[name] = true
		l.StaticGlobal(name)
		l.DataAttributes(attr.RODATA | attr.NOPTR)
		for lane := range l.lanes {
			l.AddDatum(4*lane, U32(uint32(-(lane % 2))))
		}
	}
	return NewDataAddr(Symbol{Name: name, Static: true}, 0)
}

// interleave transposes the 4x4 words of each 128-bit part.
func (l *lang) interleave(c [4]value) [4]value {
	var t, out [4]value
	for i := range t {
		t[i], out[i] = l.register(l.Context), l.register(l.Context)
	}
	l.VPUNPCKLDQ(c[1], c[0], t[0])
	l.VPUNPCKHDQ(c[1], c[0], t[1])
	l.VPUNPCKLDQ(c[3], c[2], t[2])
	l.VPUNPCKHDQ(c[3], c[2], t[3])
	l.VPUNPCKLQDQ(t[2], t[0], out[0])
	l.VPUNPCKHQDQ(t[2], t[0], out[1])
	l.VPUNPCKLQDQ(t[3], t[1], out[2])
	l.VPUNPCKHQDQ(t[3], t[1], out[3])
	return out
}
