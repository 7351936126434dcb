package main

import (
	"math"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitRows writes the functions of softmax, losses, norms and attention over rows, for
// one width.
func emitRows(c *build.Context, s simd) {
	l := &lang{c, s, map[string]bool{}}
	l.exponentials()
	l.dotFrom()
	l.losses()
	l.lossGrads()
	l.norms()
	l.normGrads()
	l.rotate()
	l.attend()
	l.attendGrad()
	l.rowDots()
	l.zeros()
}

// bytes is an argument that counts elements, as bytes.
func (l *lang) bytes(name string) reg.GPVirtual {
	r := l.param(name)
	l.SHLQ(Imm(2), r)
	return r
}

// count is a constant operand of the size that instructions take.
func count(n int) Op {
	if n < 128 {
		return Imm(uint64(n))
	}
	return U32(n)
}

// expOrZero is e^x where that is above 1e-35, and 0 below: what is next to
// nothing in a sum of at least 1 is not worth the time that processors take
// for numbers without a full mantissa. It is exp without what x below -80 wants, and is
// infinite from 88.4 on.
func (l *lang) expOrZero(x value) value {
	const least = -80
	at := l.in(l.k(89))
	l.VMINPS(x, at, at) // the second source where x is NaN
	word := l.fma(at, l.k(math.Log2E), l.k(rounded))
	n := l.sub(word, l.k(rounded))
	e := l.expNear(at, n)
	if l.lanes == 16 {
		k, v := l.K(), l.register(l.Context)
		l.VCMPPS(Imm(notLess), l.k(least), x, k)
		l.VSCALEFPS_Z(n, e, k, v)
		return v
	}
	return l.keep(x, notLess, l.k(least), l.scaleBy(word, 0, e), nil)
}

// keep is v in the lanes where a compares with b so, and other, or 0 if that is
// nil, elsewhere.
func (l *lang) keep(a value, predicate uint8, b Op, v value, other Op) value {
	if l.lanes == 16 {
		k := l.K()
		l.VCMPPS(Imm(uint64(predicate)), b, a, k)
		w := l.register(l.Context)
		if other == nil {
			l.VMOVAPS_Z(v, k, w)
			return w
		}
		l.VMOVUPS(other, w)
		l.VMOVAPS(v, k, w)
		return w
	}
	m := l.register(l.Context)
	l.VCMPPS(Imm(uint64(predicate)), b, a, m)
	if other == nil {
		return l.and(v, m)
	}
	l.VBLENDVPS(m, v, l.in(other), m)
	return m
}

// exponentials write the functions that are e^x for a whole row.
func (l *lang) exponentials() {
	l.define("SumExp", "func(x *float32, n int, shift float32) float64", "is the sum of e^(x-shift) over n elements in float64.")
	x, shift, acc := l.param("x"), l.spread("shift"), l.sums()
	l.loop(l.param("n"), 2, func(u int, c cursor) {
		v := l.expOrZero(l.sub(l.get(x, c), shift))
		if c.mask != nil {
			v = l.only(v, c.mask)
		}
		for half := range 2 {
			l.VADDPD(l.wide(v, half == 1), acc[2*u+half], acc[2*u+half])
		}
	})
	l.fold(acc)

	l.define("ExpScaled", "func(y, x *float32, n int, shift, scale float32)", "is y = e^(x-shift)*scale for n elements.")
	y, x, shift, scale := l.param("y"), l.param("x"), l.spread("shift"), l.spread("scale")
	l.loop(l.param("n"), 1, func(_ int, c cursor) { l.put(l.mul(l.expOrZero(l.sub(l.get(x, c), shift)), scale), y, c) })
	l.done()
}

// dotFrom is a dot product of what differs from a number.
func (l *lang) dotFrom() {
	l.define("DotFrom", "func(a, b *float32, n int, c float64) float64", "is the sum of (a-c)*b over n elements in float64.")
	a, b, acc := l.param("a"), l.param("b"), l.sums()
	p, err := l.Param("c").Resolve()
	if err != nil {
		panic(err)
	}
	center := l.register(l.Context)
	l.VBROADCASTSD(p.Addr, center)
	l.loop(l.param("n"), sumParts/2, func(u int, c cursor) {
		v, w := l.halves(a, c), l.halves(b, c)
		for half, d := range v {
			l.VSUBPD(center, d, d)
			l.VFMADD231PD(d, w[half], acc[2*u+half])
		}
	})
	l.fold(acc)
}

// losses write the sums of two losses.
func (l *lang) losses() {
	for _, f := range []struct {
		name, doc string
		term      func(a, b value) value
	}{
		{"SquaredDistance", "is the sum of (a-b)^2 over n elements in float64.", func(a, b value) value {
			d := l.sub(a, b)
			return l.mul(d, d)
		}},
		{"LogisticLoss", "is the sum of max(a,0) - a*b + log(1+e^-|a|) over n elements in float64.", func(a, b value) value {
			rest := l.log(l.add(l.expAround(0, l.atLeast(-87, l.or(a, l.bits(1<<31)))), l.k(1)))
			return l.add(l.fnma(a, b, l.relu(a)), rest)
		}},
	} {
		l.define(f.name, "func(a, b *float32, n int) float64", f.doc)
		a, b, acc := l.param("a"), l.param("b"), l.sums()
		l.loop(l.param("n"), 1, func(_ int, c cursor) {
			v := f.term(l.get(a, c), l.get(b, c))
			if c.mask != nil {
				v = l.only(v, c.mask)
			}
			for half := range 2 {
				l.VADDPD(l.wide(v, half == 1), acc[half], acc[half])
			}
		})
		l.fold(acc)
	}
}

// lossGrads write the gradients of these by a.
func (l *lang) lossGrads() {
	for _, f := range []struct {
		name, doc string
		unroll    int
		slope     func(a, b value) value
	}{
		{"SquaredDistanceGrad", "is y = 2*(a-b)*s for n elements.", short, func(a, b value) value {
			d := l.sub(a, b)
			return l.add(d, d)
		}},
		{"LogisticLossGrad", "is y = (1/(1+e^-a) - b)*s for n elements.", long, func(a, b value) value { return l.sub(l.sigmoid(a), b) }},
	} {
		l.define(f.name, "func(y, a, b *float32, n int, s float32)", f.doc)
		y, a, b, s := l.param("y"), l.param("a"), l.param("b"), l.spread("s")
		l.loop(l.param("n"), f.unroll, func(_ int, c cursor) { l.put(l.mul(f.slope(l.get(a, c), l.get(b, c)), s), y, c) })
		l.done()
	}
}

// norms write the last step of layer norm and batch norm.
func (l *lang) norms() {
	l.define("Normalize", "func(y, x, gamma, beta *float32, n int, mean, rest, rstd float32)", "is y = (x-mean-rest)*rstd*gamma + beta for n elements.")
	y, x, gamma, beta := l.param("y"), l.param("x"), l.param("gamma"), l.param("beta")
	mean, rest, rstd := l.spread("mean"), l.spread("rest"), l.spread("rstd")
	l.loop(l.param("n"), 2, func(_ int, c cursor) {
		h := l.mul(l.sub(l.sub(l.get(x, c), mean), rest), rstd)
		l.put(l.fma(h, l.get(gamma, c), l.get(beta, c)), y, c)
	})
	l.done()

	l.define("Standardize", "func(y, x *float32, n int, mean, rest, factor, shift float32)", "is y = (x-mean-rest)*factor + shift for n elements.")
	y, x, mean = l.param("y"), l.param("x"), l.spread("mean")
	rest, factor, shift := l.spread("rest"), l.spread("factor"), l.spread("shift")
	l.loop(l.param("n"), short, func(_ int, c cursor) {
		l.put(l.fma(l.sub(l.sub(l.get(x, c), mean), rest), factor, shift), y, c)
	})
	l.done()
}

// rotate turns points.
func (l *lang) rotate() {
	l.define("Rotate", "func(y, x, cos, sin *float32, n int)",
		"turns n points: of point i, x has one number at i and the other at n+i, and y gets them.")
	y, x, cos, sin := l.param("y"), l.param("x"), l.param("cos"), l.param("sin")
	n, y2, x2 := l.param("n"), l.GP64(), l.GP64()
	l.LEAQ(Mem{Base: y, Index: n, Scale: 4}, y2)
	l.LEAQ(Mem{Base: x, Index: n, Scale: 4}, x2)
	l.loop(n, 1, func(_ int, c cursor) {
		a, b, turnX, turnY := l.get(x, c), l.get(x2, c), l.get(cos, c), l.get(sin, c)
		l.put(l.fms(a, turnX, l.mul(b, turnY)), y, c)
		l.put(l.fma(a, turnY, l.mul(b, turnX)), y2, c)
	})
	l.done()
}

// normGrads write the two passes of a layer norm's gradient over a row, and
// the second of a batch norm's over a plane.
func (l *lang) normGrads() {
	l.define("NormGradSums", "func(dgamma, dbeta, x, dy, gamma *float32, n int, mean, rstd float32) (sum, sumx float64)",
		"adds dy*h to dgamma and dy to dbeta, with h = (x-mean)*rstd, and is the sums of dy*gamma",
		"and dy*gamma*h over n elements in float64.")
	dgamma, dbeta, x, dy, gamma := l.param("dgamma"), l.param("dbeta"), l.param("x"), l.param("dy"), l.param("gamma")
	mean, rstd, sums := l.spread("mean"), l.spread("rstd"), [2][]value{}
	for i := range sums {
		sums[i] = []value{l.zero(), l.zero()}
	}
	l.loop(l.param("n"), 1, func(_ int, c cursor) {
		h, d := l.mul(l.sub(l.get(x, c), mean), rstd), l.get(dy, c)
		l.put(l.fma(h, d, l.get(dgamma, c)), dgamma, c)
		l.put(l.add(d, l.get(dbeta, c)), dbeta, c)
		g := l.mul(d, l.get(gamma, c))
		for half := range 2 {
			w := l.wide(g, half == 1)
			l.VADDPD(w, sums[0][half], sums[0][half])
			l.VFMADD231PD(w, l.wide(h, half == 1), sums[1][half])
		}
	})
	for i, s := range sums {
		l.VADDPD(s[1], s[0], s[0])
		l.Store(l.across(s[0], l.VADDPD, l.VUNPCKHPD), l.ReturnIndex(i))
	}
	l.done()

	l.define("NormGrad", "func(dx, x, dy, gamma *float32, n int, mean, rstd, offset, slope float32)",
		"is dx = (dy*gamma - offset - h*slope)*rstd for n elements, with h = (x-mean)*rstd.")
	dx, x, dy, gamma := l.param("dx"), l.param("x"), l.param("dy"), l.param("gamma")
	mean, rstd, offset, slope := l.spread("mean"), l.spread("rstd"), l.spread("offset"), l.spread("slope")
	l.loop(l.param("n"), 2, func(_ int, c cursor) {
		h := l.mul(l.sub(l.get(x, c), mean), rstd)
		l.put(l.mul(l.fnma(h, slope, l.fms(l.get(dy, c), l.get(gamma, c), offset)), rstd), dx, c)
	})
	l.done()

	l.define("StandardizeGrad", "func(dx, x, dy *float32, n int, mean, offset, slope, factor float32)",
		"is dx = (dy - offset - (x-mean)*slope)*factor for n elements.")
	dx, x, dy, mean = l.param("dx"), l.param("x"), l.param("dy"), l.spread("mean")
	offset, slope, factor := l.spread("offset"), l.spread("slope"), l.spread("factor")
	l.loop(l.param("n"), 2, func(_ int, c cursor) {
		d := l.sub(l.get(x, c), mean)
		l.put(l.mul(l.fnma(d, slope, l.sub(l.get(dy, c), offset)), factor), dx, c)
	})
	l.done()
}

// across combines all lanes of v; high interleaves the upper lanes of two
// registers, or with nil those of float32 are moved down.
func (l *lang) across(v value, combine func(ops ...Op), high func(ops ...Op)) reg.Register {
	half := l.XMM()
	if l.lanes == 16 {
		upper := l.YMM()
		l.VEXTRACTF64X4(Imm(1), v, upper)
		combine(upper, v.AsY(), upper)
		l.VEXTRACTF128(Imm(1), upper, half)
		combine(upper.AsX(), half, half)
	} else {
		l.VEXTRACTF128(Imm(1), v, half)
		combine(v.AsX(), half, half)
	}
	other := l.XMM()
	if high != nil {
		high(half, half, other)
		combine(other, half, half)
		return half
	}
	for _, order := range []uint64{0x4e, 0xb1} {
		l.VPERMILPS(Imm(order), half, other)
		combine(other, half, half)
	}
	return half
}
