package main

import (
	"strings"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// How many vectors a loop takes at a time: more where there is little to do
// for each. The processor overlaps rounds of long ones by itself.
const (
	short = 4
	long  = 1
)

// unaries are the functions of one array.
var unaries = []struct {
	name   string
	unroll int
	f      func(l *lang, x value) value
}{
	{"Neg", short, func(l *lang, x value) value { return l.xor(x, l.bits(1<<31)) }},
	{"Abs", short, func(l *lang, x value) value { return l.and(x, l.bits(1<<31-1)) }},
	{"Square", short, func(l *lang, x value) value { return l.mul(x, x) }},
	{"Sqrt", short, func(l *lang, x value) value { return l.sqrt(x) }},
	{"Rsqrt", short, func(l *lang, x value) value { return l.div(l.in(l.k(1)), l.sqrt(x)) }},
	{"Relu", short, (*lang).relu},
	{"Exp", long, (*lang).exp},
	{"Log", long, (*lang).log},
	{"Tanh", long, (*lang).tanh},
	{"Sigmoid", long, (*lang).sigmoid},
	{"Silu", long, (*lang).silu},
	{"GeluTanh", long, (*lang).geluTanh},
	{"GeluErf", long, (*lang).geluErf},
}

// binaries are the functions of two arrays.
var binaries = []struct {
	name   string
	unroll int
	f      func(l *lang, a, b value) value
}{
	{"Add", short, func(l *lang, a, b value) value { return l.add(a, b) }},
	{"Sub", short, func(l *lang, a, b value) value { return l.sub(a, b) }},
	{"Mul", short, func(l *lang, a, b value) value { return l.mul(a, b) }},
	{"Div", short, func(l *lang, a, b value) value { return l.div(a, b) }},
	{"ReluGrad", short, (*lang).reluGrad},
	{"AbsGrad", short, (*lang).absGrad},
	{"SquareGrad", short, func(l *lang, x, dy value) value { return l.mul(dy, l.add(x, x)) }},
	{"ExpGrad", short, func(l *lang, y, dy value) value { return l.mul(dy, y) }},
	{"LogGrad", short, func(l *lang, x, dy value) value { return l.div(dy, x) }},
	{"SqrtGrad", short, func(l *lang, y, dy value) value { return l.mul(dy, l.div(l.in(l.k(0.5)), y)) }},
	{"RsqrtGrad", short, func(l *lang, y, dy value) value {
		return l.mul(dy, l.mul(l.mul(l.mul(y, y), y), l.k(-0.5)))
	}},
	{"TanhGrad", short, func(l *lang, y, dy value) value {
		one := l.in(l.k(1))
		return l.mul(dy, l.mul(l.sub(one, y), l.add(one, y)))
	}},
	{"SigmoidGrad", short, func(l *lang, y, dy value) value {
		return l.mul(dy, l.mul(y, l.sub(l.in(l.k(1)), y)))
	}},
	{"SiluGrad", long, (*lang).siluGrad},
	{"GeluTanhGrad", long, (*lang).geluTanhGrad},
	{"GeluErfGrad", long, (*lang).geluErfGrad},
	{"Swiglu", long, func(l *lang, gate, x value) value { return l.mul(l.silu(gate), x) }},
	{"Geglu", long, func(l *lang, gate, x value) value { return l.mul(l.geluErf(gate), x) }},
	{"GegluTanh", long, func(l *lang, gate, x value) value { return l.mul(l.geluTanh(gate), x) }},
}

// scalars are the functions of an array and one or two numbers.
var scalars = []struct {
	name, params string
	doc          string
	f            func(l *lang, x value, s []value) value
}{
	{"AddScalar", "s", "x + s", func(l *lang, x value, s []value) value { return l.add(x, s[0]) }},
	{"MulScalar", "s", "x*s", func(l *lang, x value, s []value) value { return l.mul(x, s[0]) }},
	{"DivScalar", "s", "x/s", func(l *lang, x value, s []value) value { return l.div(x, s[0]) }},
	{"ScalarSub", "s", "s - x", func(l *lang, x value, s []value) value { return l.sub(s[0], x) }},
	{"ScalarDiv", "s", "s/x", func(l *lang, x value, s []value) value { return l.div(s[0], x) }},
	{"Affine", "scale, shift", "x*scale, rounded, + shift", func(l *lang, x value, s []value) value {
		return l.add(l.mul(x, s[0]), s[1])
	}},
	{"AddScaled", "s", "y + s*x, rounded once", nil},
}

// emitVec writes the functions over whole arrays for one width.
func emitVec(c *build.Context, s simd) {
	l := &lang{c, s, map[string]bool{}}
	for _, f := range unaries {
		l.define(f.name, "func(y, x *float32, n int)", "computes each of n elements of y from that of x, which may be y.")
		y, x := l.param("y"), l.param("x")
		l.loop(l.param("n"), f.unroll, func(_ int, c cursor) { l.put(f.f(l, l.get(x, c)), y, c) })
		l.done()
	}
	for _, f := range binaries {
		l.define(f.name, "func(y, a, b *float32, n int)", "computes each of n elements of y from those of a and b, which may be y.")
		y, a, b := l.param("y"), l.param("a"), l.param("b")
		l.loop(l.param("n"), f.unroll, func(_ int, c cursor) { l.put(f.f(l, l.get(a, c), l.get(b, c)), y, c) })
		l.done()
	}
	for _, f := range scalars {
		l.scalar(f.name, f.params, f.doc, f.f)
	}
	l.lerp()
	l.mulAddTo()
	l.widen()
	l.widenInt8()
	l.reductions()
	l.updates()
}

// scalar writes a function of an array and numbers; without f, y is read too.
func (l *lang) scalar(name, params, doc string, f func(l *lang, x value, s []value) value) {
	l.define(name, "func(y, x *float32, n int, "+params+" float32)", "is y = "+doc+", for n elements. y and x may be the same.")
	y, x := l.param("y"), l.param("x")
	var s []value
	for _, p := range strings.Split(params, ", ") {
		s = append(s, l.spread(p))
	}
	l.loop(l.param("n"), short, func(_ int, c cursor) {
		v := l.get(x, c)
		if f == nil {
			l.put(l.fma(v, s[0], l.get(y, c)), y, c)
			return
		}
		l.put(f(l, v, s), y, c)
	})
	l.done()
}

// lerp is a + t(b-a).
func (l *lang) lerp() {
	l.define("Lerp", "func(y, a, b *float32, n int, t float32)", "is y = a + t*(b-a), each operation rounded, for n elements.")
	y, a, b, t := l.param("y"), l.param("a"), l.param("b"), l.spread("t")
	l.loop(l.param("n"), short, func(_ int, c cursor) {
		v := l.get(a, c)
		l.put(l.add(v, l.mul(l.sub(l.get(b, c), v), t)), y, c)
	})
	l.done()
}

// mulAddTo is y += a*b.
func (l *lang) mulAddTo() {
	l.define("MulAddTo", "func(y, a, b *float32, n int)", "is y += a*b, rounded once, for n elements.")
	y, a, b := l.param("y"), l.param("a"), l.param("b")
	l.loop(l.param("n"), short, func(_ int, c cursor) {
		v := l.get(a, c)
		l.put(l.fma(v, l.get(b, c), l.get(y, c)), y, c)
	})
	l.done()
}

// widen takes whole vectors alone: AVX2 has no masks for 16 bits.
func (l *lang) widen() {
	l.define("Widen", "func(y *float32, x *uint16, n int)", "is y = x, stored as bfloat16, for n elements, whole vectors of y.")
	y, x, n, i := l.param("y"), l.param("x"), l.param("n"), l.GP64()
	l.XORQ(i, i)
	for _, step := range []struct {
		name, next string
		unroll     int
	}{{"unrolled", "single", short}, {"single", "done", 1}} {
		elems := step.unroll * l.lanes
		l.Label(step.name)
		l.CMPQ(n, count(elems))
		l.JLT(LabelRef(step.next))
		for u := range step.unroll {
			v := l.register(l.Context)
			l.VPMOVZXWD(Mem{Base: x, Index: i, Scale: 2, Disp: 2 * u * l.lanes}, v)
			l.VPSLLD(Imm(16), v, v)
			l.put(v, y, cursor{i, u * l.lanes, nil})
		}
		l.ADDQ(count(elems), i)
		l.SUBQ(count(elems), n)
		l.JMP(LabelRef(step.name))
	}
	l.Label("done")
	l.done()
}

// widenInt8 takes whole blocks: see shape.Int8Block.
func (l *lang) widenInt8() {
	const elems, bytes = 32, 2 + 32 // of a block
	l.define("WidenInt8", "func(y *float32, x *byte, blocks int)", "is y = x, stored as int8 by block, for whole blocks.")
	y, x, blocks := l.param("y"), l.param("x"), l.param("blocks")
	l.Label("block")
	l.TESTQ(blocks, blocks)
	l.JZ(LabelRef("done"))
	scale := l.register(l.Context)
	l.VPBROADCASTW(Mem{Base: x}, scale)
	l.VPSLLD(Imm(16), scale, scale)
	for at := 0; at < elems; at += l.lanes {
		v := l.register(l.Context)
		l.VPMOVSXBD(Mem{Base: x, Disp: 2 + at}, v)
		l.VCVTDQ2PS(v, v)
		l.VMULPS(scale, v, v)
		l.VMOVUPS(v, Mem{Base: y, Disp: 4 * at})
	}
	l.ADDQ(Imm(bytes), x)
	l.ADDQ(Imm(4*elems), y)
	l.DECQ(blocks)
	l.JMP(LabelRef("block"))
	l.Label("done")
	l.done()
}

// sums are float64 accumulators, each for the lanes of half a vector.
type sums []value

// sumParts is how many accumulators a sum has, so that additions overlap.
const sumParts = 4

func (l *lang) sums() sums {
	s := make(sums, sumParts)
	for i := range s {
		s[i] = l.zero()
	}
	return s
}

// wide is the lower or upper half of a vector as float64.
func (l *lang) wide(v value, upper bool) value {
	w := l.register(l.Context)
	switch {
	case l.lanes == 8 && !upper:
		l.VCVTPS2PD(v.AsX(), w)
	case l.lanes == 8:
		x := l.XMM()
		l.VEXTRACTF128(Imm(1), v, x)
		l.VCVTPS2PD(x, w)
	case !upper:
		l.VCVTPS2PD(v.AsY(), w)
	default:
		y := l.YMM()
		l.VEXTRACTF32X8(Imm(1), v, y)
		l.VCVTPS2PD(y, w)
	}
	return w
}

// halves are the vector of an array that a loop is at, as float64.
func (l *lang) halves(base reg.GPVirtual, c cursor) [2]value {
	if c.mask != nil {
		v := l.get(base, c)
		return [2]value{l.wide(v, false), l.wide(v, true)}
	}
	w := [2]value{l.register(l.Context), l.register(l.Context)}
	for half, v := range w {
		m := c.at(base)
		m.Disp += half * l.lanes * 2
		l.VCVTPS2PD(m, v)
	}
	return w
}

// fold makes the sum of all accumulators the result.
func (l *lang) fold(s sums) {
	l.Store(l.tree(s), l.ReturnIndex(0))
	l.done()
}

// tree adds the lanes of all accumulators.
func (l *lang) tree(s sums) reg.Register {
	l.VADDPD(s[1], s[0], s[0])
	l.VADDPD(s[3], s[2], s[2])
	l.VADDPD(s[2], s[0], s[0])
	y := s[0]
	half := reg.Register(l.XMM())
	if l.lanes == 16 {
		upper := l.YMM()
		l.VEXTRACTF64X4(Imm(1), y, upper)
		l.VADDPD(upper, y.AsY(), upper)
		l.VEXTRACTF128(Imm(1), upper, half)
		l.VADDPD(upper.AsX(), half, half)
	} else {
		l.VEXTRACTF128(Imm(1), y, half)
		l.VADDPD(y.AsX(), half, half)
	}
	other := l.XMM()
	l.VUNPCKHPD(half, half, other)
	l.VADDSD(other, half, half)
	return half
}

// reductions write the functions of arrays that are one number.
func (l *lang) reductions() {
	l.define("Sum", "func(x *float32, n int) float64", "is the sum of n elements in float64.")
	x := l.param("x")
	l.fold(l.sum(x, l.param("n")))

	l.define("Dot", "func(a, b *float32, n int) float64", "is the sum of n products in float64.")
	a, b, acc := l.param("a"), l.param("b"), l.sums()
	l.loop(l.param("n"), sumParts/2, func(u int, c cursor) {
		v, w := l.halves(a, c), l.halves(b, c)
		for half := range 2 {
			l.VFMADD231PD(v[half], w[half], acc[2*u+half])
		}
	})
	l.fold(acc)

	l.expSum()
	l.maximum()
	l.squaresFrom()
}

// sum adds up n elements of x. It changes n.
func (l *lang) sum(x, n reg.GPVirtual) sums {
	acc := l.sums()
	l.loop(n, sumParts/2, func(u int, c cursor) {
		for half, w := range l.halves(x, c) {
			l.VADDPD(w, acc[2*u+half], acc[2*u+half])
		}
	})
	return acc
}

// expSum masks lanes beyond the end, where exp is not 0.
func (l *lang) expSum() {
	l.define("ExpSum", "func(y, x *float32, n int, shift float32) float64", "is y = e^(x-shift) for n elements of at most shift, and their sum in float64.")
	y, x, shift, acc := l.param("y"), l.param("x"), l.spread("shift"), l.sums()
	l.loop(l.param("n"), 1, func(u int, c cursor) {
		v := l.expAround(-64, l.atLeast(-104, l.sub(l.get(x, c), shift)))
		l.put(v, y, c)
		if c.mask != nil {
			v = l.only(v, c.mask)
		}
		for half := range 2 {
			l.VADDPD(l.wide(v, half == 1), acc[half], acc[half])
		}
	})
	l.fold(acc)
}

// only is v with 0 in the lanes that a mask leaves out.
func (l *lang) only(v value, mask Op) value {
	if l.lanes == 16 {
		w := l.register(l.Context)
		l.VMOVAPS_Z(v, mask, w)
		return w
	}
	return l.and(v, mask)
}

func (l *lang) maximum() {
	l.define("Max", "func(x *float32, n int) float32", "is the largest of n elements that is not NaN, or -Inf.")
	x := l.param("x")
	var most []value
	for range short {
		most = append(most, l.in(l.bits(0xff800000)))
	}
	l.loop(l.param("n"), short, func(u int, c cursor) {
		v := l.get(x, c)
		if c.mask != nil { // zeros beyond the end must not win
			v = l.or(v, l.xor(l.in(l.bits(0xff800000)), l.only(l.in(l.bits(0xff800000)), c.mask)))
		}
		l.VMAXPS(most[u], v, most[u]) // the second source where v is NaN
	})
	for i := 1; i < short; i++ {
		l.VMAXPS(most[i], most[0], most[0])
	}
	half := reg.Register(l.XMM())
	v := reg.Register(most[0].AsY())
	if l.lanes == 16 {
		upper := l.YMM()
		l.VEXTRACTF32X8(Imm(1), most[0], upper)
		l.VMAXPS(upper, most[0].AsY(), upper)
		v = upper
	}
	l.VEXTRACTF128(Imm(1), v, half)
	l.VMAXPS(v.(reg.VecVirtual).AsX(), half, half)
	other := l.XMM()
	for _, order := range []uint64{0x4e, 0xb1} {
		l.VPERMILPS(Imm(order), half, other)
		l.VMAXPS(other, half, half)
	}
	l.Store(half, l.ReturnIndex(0))
	l.done()
}

// squaresFrom sums (x - c)^2; lanes beyond the end count as c.
func (l *lang) squaresFrom() {
	l.define("SquaresFrom", "func(x *float32, n int, c float64) float64", "is the sum of (x-c)^2 over n elements in float64.")
	x, acc := l.param("x"), l.sums()
	p, err := l.Param("c").Resolve()
	if err != nil {
		panic(err)
	}
	center := l.register(l.Context)
	l.VBROADCASTSD(p.Addr, center)
	l.loop(l.param("n"), sumParts/2, func(u int, c cursor) {
		for half, w := range l.halves(x, c) {
			l.VSUBPD(center, w, w)
			if c.mask != nil {
				w = l.onlyWide(w, c.mask, half)
			}
			l.VFMADD231PD(w, w, acc[2*u+half])
		}
	})
	l.fold(acc)
}

// onlyWide is only for half of a vector as float64.
func (l *lang) onlyWide(v value, mask Op, half int) value {
	w := l.register(l.Context)
	if l.lanes == 16 {
		k := l.K()
		l.KSHIFTRW(Imm(uint64(8*half)), mask, k)
		l.VMOVAPD_Z(v, k, w)
		return w
	}
	m := mask.(Mem)
	m.Disp += 16 * half
	l.VPMOVSXDQ(m, w)
	l.VANDPD(w, v, w)
	return w
}

// updates are the optimizers. Numbers are read from an array k: there are more
// of them than AVX2 has registers for.
func (l *lang) updates() {
	l.define("Adam", "func(w1, m1, v1, w, m, v, dw, k *float32, n int)",
		"updates n elements by Adam: d = dw*k0 + k1*w, m1 = k2*m + k3*d, v1 = k4*v + k5*d*d,",
		"w1 = w*k6 - k7*m1/(sqrt(v1)*k8 + k9).")
	w1, m1, v1 := l.param("w1"), l.param("m1"), l.param("v1")
	w, m, v, g := l.param("w"), l.param("m"), l.param("v"), l.param("dw")
	k := l.numbers(10)
	l.loop(l.param("n"), long, func(_ int, c cursor) {
		x := l.get(w, c)
		d := l.fma(x, k(1), l.mul(l.get(g, c), k(0)))
		mj := l.fma(d, k(3), l.mul(l.get(m, c), k(2)))
		l.put(mj, m1, c)
		vj := l.fma(l.mul(d, d), k(5), l.mul(l.get(v, c), k(4)))
		l.put(vj, v1, c)
		step := l.div(l.mul(mj, k(7)), l.fma(l.sqrt(vj), k(8), k(9)))
		l.put(l.sub(l.mul(x, k(6)), step), w1, c)
	})
	l.done()

	l.lion()
	for _, nesterov := range []bool{false, true} {
		name, doc := "Momentum", "w1 = w - k2*v1."
		if nesterov {
			name, doc = "Nesterov", "w1 = w - k2*(d + k3*v1)."
		}
		l.define(name, "func(w1, v1, w, v, dw, k *float32, n int)",
			"updates n elements by SGD: d = dw*k0 + k1*w, v1 = k3*v + d, "+doc)
		w1, v1, w, v, g := l.param("w1"), l.param("v1"), l.param("w"), l.param("v"), l.param("dw")
		k := l.numbers(4)
		l.loop(l.param("n"), 2, func(_ int, c cursor) {
			x := l.get(w, c)
			d := l.fma(x, k(1), l.mul(l.get(g, c), k(0)))
			vj := l.fma(l.get(v, c), k(3), d)
			l.put(vj, v1, c)
			if nesterov {
				vj = l.fma(vj, k(3), d)
			}
			l.put(l.fnma(vj, k(2), x), w1, c)
		})
		l.done()
	}

	l.define("SGD", "func(w1, w, dw, k *float32, n int)", "updates n elements by SGD: w1 = w - k2*(dw*k0 + k1*w).")
	w1, w, g = l.param("w1"), l.param("w"), l.param("dw")
	k = l.numbers(3)
	l.loop(l.param("n"), short, func(_ int, c cursor) {
		x := l.get(w, c)
		l.put(l.fnma(l.fma(x, k(1), l.mul(l.get(g, c), k(0))), k(2), x), w1, c)
	})
	l.done()
}

// lion is the update by signs. A sign of 0 is 0, and of NaN is NaN.
func (l *lang) lion() {
	l.define("Lion", "func(w1, m1, w, m, dw, k *float32, n int)",
		"updates n elements by Lion: d = dw*k0, w1 = w*k5 - k6*sign(k1*m + k2*d), m1 = k3*m + k4*d.")
	w1, m1, w, m, g := l.param("w1"), l.param("m1"), l.param("w"), l.param("m"), l.param("dw")
	k := l.numbers(7)
	l.loop(l.param("n"), long, func(_ int, c cursor) {
		d, mj := l.mul(l.get(g, c), k(0)), l.get(m, c)
		at := l.fma(d, k(2), l.mul(mj, k(1)))
		l.put(l.fma(d, k(4), l.mul(mj, k(3))), m1, c)
		step := l.xor(k(6), l.and(at, l.bits(1<<31)))
		step = l.choose(at, notEqual, l.zero(), step, at)
		step = l.choose(at, unordered, at, at, step)
		l.put(l.sub(l.mul(l.get(w, c), k(5)), step), w1, c)
	})
	l.done()
}

// numbers are the first elements of array k, each in all lanes: kept in
// registers where there are enough of them, otherwise loaded at each use.
func (l *lang) numbers(count int) func(i int) value {
	k := l.param("k")
	get := func(i int) value {
		v := l.register(l.Context)
		l.broadcast(l.Context, Mem{Base: k, Disp: 4 * i}, v)
		return v
	}
	if l.lanes == 8 {
		return get
	}
	kept := make([]value, count)
	for i := range kept {
		kept[i] = get(i)
	}
	return func(i int) value { return kept[i] }
}
