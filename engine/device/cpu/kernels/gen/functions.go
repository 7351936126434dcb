package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
)

// The polynomials are minimax fits of the relative error, over the range that
// each comment gives.

// exp is e^x: x = n ln 2 + r with |r| <= ln 2 / 2, e^r = 1 + r + r^2 P(r),
// whose error is 3e-9. It underflows gradually, overflows to infinity, and
// keeps NaN.
func (l *lang) exp(x value) value {
	x = l.clamp(x, -104, 89)
	n := l.whole(l.mul(x, l.k(math.Log2E)))
	return l.scale(l.expNear(x, n), n)
}

// expAround is exp for x from which e^x lies between 2^(center-126) and 2^(center+127), and which so needs no clamp.
// That takes 5 instructions less with AVX2.
func (l *lang) expAround(center int, x value) value {
	n := l.mul(x, l.k(math.Log2E))
	if l.lanes == 16 {
		n = l.whole(n)
		return l.scale(l.expNear(x, n), n)
	}
	word := l.add(n, l.k(rounded))
	return l.scaleBy(word, center, l.expNear(x, l.sub(word, l.k(rounded))))
}

// rounded is what is added to a number to round it to a whole one, which is then in the lower bits of the sum's word.
const rounded = 3 << 22

// scaleBy is x*2^n, rounded once, for the word of rounded + n, with n from center-126 to center+127. AVX-512 has scale.
func (l *lang) scaleBy(word value, center int, x value) value {
	power := l.register(l.Context)
	l.VPSLLD(Imm(23), word, power)
	l.VPADDD(l.bits(uint32(127-center)<<23), power, power)
	v := l.mul(x, power)
	if center != 0 {
		v = l.mul(v, l.k(math.Ldexp(1, center)))
	}
	return v
}

// expNear is e^(x - n ln 2).
func (l *lang) expNear(x, n value) value {
	r := l.fnma(n, l.k(ln2High), x)
	l.VFNMADD231PS(l.k(ln2Low), n, r)
	p := l.poly(r, 0.499999934, 0.166665201, 0.0416683942, 0.00836878043, 0.00138144667)
	p = l.fma(p, l.mul(r, r), r)
	return l.add(p, l.k(1))
}

// ln 2 in two parts; the product of a whole number below 2^9 with the first is
// exact.
const (
	ln2High = 0.693359375
	ln2Low  = math.Ln2 - ln2High
)

// minus is -x.
func (l *lang) minus(x value) value { return l.xor(x, l.bits(1<<31)) }

// sigmoid is 1/(1+e^-x), which is 1 from x = 18 on.
func (l *lang) sigmoid(x value) value {
	return l.sigmoidOf(l.expAround(64, l.clamp(l.minus(x), -42.9, 89)))
}

// sigmoidOf is 1/(1+e).
func (l *lang) sigmoidOf(e value) value { return l.div(l.in(l.k(1)), l.add(e, l.k(1))) }

// slope is s*(1-s) = e*s^2 of a sigmoid s with e = e^-x, for x above -88.
func (l *lang) slope(s, e value) value { return l.mul(l.mul(e, s), s) }

// tanh is (1-e)/(1+e) with e = e^-2|x|, which is 1 from |x| = 9 on; below 5/8 an odd
// polynomial, whose error is 1.5e-10.
func (l *lang) tanh(x value) value {
	sign := l.and(x, l.bits(1<<31))
	size := l.xor(x, sign)
	e := l.expAround(0, l.atLeast(-87, l.mul(size, l.k(-2))))
	one := l.in(l.k(1))
	far := l.or(l.div(l.sub(one, e), l.add(one, e)), sign)
	s := l.mul(x, x)
	p := l.poly(s, -0.333333309, 0.133332098, -0.0539472046, 0.0217029686, -0.00818267726, 0.00214753975)
	near := l.fma(l.mul(p, s), x, x)
	return l.choose(size, less, l.k(0.625), near, far)
}

// The tanh form of GELU is x*sigmoid(2u), u = geluA*(x + geluB*x^3).
const (
	geluA = 0.7978845608028654 // sqrt(2/pi)
	geluB = 0.044715
)

func (l *lang) geluTanh(x value) value {
	return l.mul(x, l.sigmoid(l.mul(x, l.poly(l.mul(x, x), 2*geluA, 2*geluA*geluB))))
}

// geluTanhGrad is s + x*s*(1-s)*2u', times dy. It is constant beyond 10.
func (l *lang) geluTanhGrad(x, dy value) value {
	x = l.clamp(x, -10, 10)
	x2 := l.mul(x, x)
	e := l.expAround(0, l.minus(l.mul(x, l.poly(x2, 2*geluA, 2*geluA*geluB)))) // of 87.32 at the most
	s := l.sigmoidOf(e)
	u := l.mul(x, l.poly(x2, 2*geluA, 6*geluA*geluB))
	return l.mul(dy, l.fma(l.slope(s, e), u, s))
}

func (l *lang) silu(x value) value {
	return l.mul(x, l.sigmoid(x))
}

// siluGrad is s + x*s*(1-s), times dy. It is constant beyond 88.
func (l *lang) siluGrad(x, dy value) value {
	x = l.clamp(x, -87, 88)
	e := l.exp(l.minus(x))
	s := l.sigmoidOf(e)
	return l.mul(dy, l.fma(l.slope(s, e), x, s))
}

// normal is the standard normal distribution function of x and its density,
// times sqrt(2 pi). With t = |x|/sqrt 2, erfc(t) = e^-t^2 Q(t)/(1+2t), where Q is a
// polynomial in (t-3)/(t+3) with an error of 2e-9 up to t = 10.2. What rounding
// takes from t^2 is put back after exp.
func (l *lang) normal(x value) (phi, density value) {
	size := l.clamp(l.and(x, l.bits(1<<31-1)), 0, 14.4)
	t := l.mul(size, l.k(math.Sqrt2/2))
	half := l.in(l.k(0.5))
	square := l.mul(l.mul(size, size), half)
	lost := l.fms(l.mul(size, half), size, square)
	e := l.expAround(-64, l.minus(square))
	e = l.fnma(e, lost, e)
	q := l.div(l.sub(t, l.k(3)), l.add(t, l.k(3)))
	p := l.poly(q, erfcQ...)
	tail := l.div(l.mul(l.mul(p, e), half), l.fma(t, l.k(2), l.k(1)))
	return l.choose(x, greater, l.zero(), l.sub(l.in(l.k(1)), tail), tail), e
}

func (l *lang) geluErf(x value) value {
	phi, _ := l.normal(x)
	return l.mul(x, phi)
}

// geluErfGrad is Phi(x) + x*phi(x), times dy.
func (l *lang) geluErfGrad(x, dy value) value {
	phi, density := l.normal(x)
	c := l.mul(l.clamp(x, -15, 15), l.k(1/math.Sqrt(2*math.Pi)))
	return l.mul(dy, l.fma(c, density, phi))
}

// relu keeps NaN.
func (l *lang) relu(x value) value { return l.choose(x, notLess, l.zero(), x, l.zero()) }

// reluGrad lets dy pass where the output y is positive or NaN.
func (l *lang) reluGrad(y, dy value) value {
	zero := l.zero()
	return l.choose(y, notLessOrEqual, zero, dy, zero)
}

// absGrad is dy times the sign of x, 0 for 0 and NaN.
func (l *lang) absGrad(x, dy value) value {
	zero := l.zero()
	signed := l.xor(dy, l.and(x, l.bits(1<<31)))
	positive := l.choose(x, greater, zero, signed, zero)
	return l.choose(x, less, zero, signed, positive)
}

// log takes what has no bit for the 1 before the point up to where it has, and
// sees to zero and what is below.
func (l *lang) log(x value) value {
	zero := l.zero()
	small := l.k(0x1p-126)
	up := l.choose(x, less, small, l.k(0x1p23), l.in(l.k(1)))
	back := l.choose(x, less, small, l.k(23), zero)
	y := l.logOfNormal(x, l.mul(x, up), func(n value) value { return l.sub(n, back) })
	rest := l.choose(x, less, zero, l.bits(quietNaN), l.in(l.k(math.Inf(-1))))
	return l.choose(x, lessOrEqual, zero, rest, y)
}

// logOfNormal is n ln 2 + log(1+f) with 1+f within sqrt(1/2) and sqrt 2, and
// log(1+f) = f - f^2/2 + f^3 P(f), whose error is 7e-10. It is for numbers v
// that are positive and not subnormal, of which shift corrects n. Infinity and
// NaN stay where x is.
func (l *lang) logOfNormal(x, v value, shift func(n value) value) value {
	whole, n := l.register(l.Context), l.register(l.Context)
	l.VPSUBD(l.bits(rootHalf), v, n)
	l.VPSRAD(Imm(23), n, n)
	l.VPSLLD(Imm(23), n, whole)
	rest := l.register(l.Context)
	l.VPSUBD(whole, v, rest)
	l.VCVTDQ2PS(n, n)
	n = shift(n)
	f := l.sub(rest, l.k(1))
	f2 := l.mul(f, f)
	p := l.poly(f, 0.333333104, -0.249999866, 0.200022267, -0.166692496, 0.142186557,
		-0.123843685, 0.118730129, -0.117897051, 0.0691516557)
	y := l.mul(l.mul(p, f), f2)
	l.VFMADD231PS(l.k(ln2Low), n, y)
	l.VFMADD231PS(l.k(-0.5), f2, y)
	y = l.fma(n, l.k(ln2High), l.add(y, f))
	return l.choose(x, less, l.k(math.Inf(1)), y, x)
}

const (
	rootHalf = 0x3f3504f3 // the bits of sqrt(1/2)
	quietNaN = 0x7fc00000
)

// erfcQ are the coefficients of Q.
var erfcQ = []float64{1.25300806, -0.13562114, -0.0475624097, 0.129646434, -0.119270795, 0.0682957505,
	-0.0237985389, 0.00256655965, 0.00200335269, -0.000775116237, -0.000267178668}
