package main

import (
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// emitNarrow writes softmax, its logarithm and their gradients for rows that fit
// into one vector, for one width. The sums of a row are in float32, by a tree.
func emitNarrow(c *build.Context, s simd) {
	l := &lang{c, s, map[string]bool{}}
	exps := func(x, outside value, mask Op) (from, e value) {
		x = l.or(x, outside)
		from = l.sub(x, l.every(x, l.VMAXPS))
		return from, l.only(l.expOrZero(from), mask)
	}
	l.narrow("NarrowSoftmax", "y = e^a / sum of e^a", func(a, _, outside value, mask Op) value {
		_, e := exps(a, outside, mask)
		return l.div(e, l.every(e, l.VADDPS))
	})
	l.narrow("NarrowLogSoftmax", "y = a - log(sum of e^a)", func(a, _, outside value, mask Op) value {
		from, e := exps(a, outside, mask)
		sum := l.every(e, l.VADDPS) // at least 1, or NaN
		return l.sub(from, l.logOfNormal(sum, sum, func(n value) value { return n }))
	})
	l.narrow("NarrowSoftmaxGrad", "y = a*(b - sum of a*b)", func(a, b, _ value, _ Op) value {
		return l.mul(a, l.sub(b, l.every(l.mul(a, b), l.VADDPS)))
	})
	l.narrow("NarrowLogSoftmaxGrad", "y = b - e^a * sum of b", func(a, b, _ value, _ Op) value {
		return l.fnma(l.expOrZero(a), l.every(b, l.VADDPS), b)
	})
}

// narrow writes a function of rows of a and b. outside has -Inf in the lanes
// beyond the end of a row and 0 in the others; those of a and b are 0.
func (l *lang) narrow(name, doc string, f func(a, b, outside value, mask Op) value) {
	l.define(name, "func(y, a, b *float32, rows, n int)", "is "+doc+" over each of the rows of n elements, which fit into a vector.", "There is a row and an element. y may be a or b.")
	y, a, b, rows, n := l.param("y"), l.param("a"), l.param("b"), l.param("rows"), l.param("n")
	bytes := l.bytes("n")
	mask := l.masks(l.Context, n, 1)[0]
	lowest := l.in(l.bits(0xff800000))
	outside := l.xor(lowest, l.only(lowest, mask))
	l.Label("row")
	v, w := l.register(l.Context), l.register(l.Context)
	l.load(l.Context, Mem{Base: a}, mask, v, v)
	l.load(l.Context, Mem{Base: b}, mask, w, w)
	var tmp value
	if l.lanes == 8 {
		tmp = l.register(l.Context)
	}
	l.store(l.Context, f(v, w, outside, mask), mask, tmp, Mem{Base: y})
	l.ADDQ(bytes, y)
	l.ADDQ(bytes, a)
	l.ADDQ(bytes, b)
	l.DECQ(rows)
	l.JNE(LabelRef("row"))
	l.done()
}

// every combines all lanes of v, and has the result in each.
func (l *lang) every(v value, combine func(ops ...Op)) value {
	r := l.copy(v)
	other := l.register(l.Context)
	for _, order := range []uint64{0x4e, 0xb1} {
		switch {
		case l.lanes == 16:
			l.VSHUFF32X4(Imm(order), r, r, other)
		case order == 0x4e:
			l.VPERM2F128(Imm(1), r, r, other)
		default:
			continue
		}
		combine(other, r, r)
	}
	for _, order := range []uint64{0x4e, 0xb1} {
		l.VPERMILPS(Imm(order), r, other)
		combine(other, r, r)
	}
	return r
}
