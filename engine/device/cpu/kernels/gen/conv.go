package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// convPixels is how many pixels' sums, of two vectors of channels each, stay
// in registers.
func convPixels(s simd) int {
	if s.lanes == 16 {
		return 14
	}
	return s.rows
}

// emitConv writes the inner kernels of a convolution, for two vectors of
// channels and for one.
func emitConv(c *build.Context, s simd) {
	emitDirect(c, s, "Conv", 2)
	emitDirect(c, s, "ConvNarrow", 1)
}

// emitDirect writes an inner kernel: channels lie in vectors, and each pixel of
// a row is multiplied with the same weights. Each number of pixels has its own
// loop. Where s multiplies pairs of bfloat16, x and w have two numbers in each word.
func emitDirect(c *build.Context, s simd, name string, vectors int) {
	most := convPixels(s)
	name += s.suffix
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(y, x *float32, taps *int, w *float32, pixels, k, add int)")
	c.Pragma("noescape")
	c.Doc(fmt.Sprintf("%s adds up k taps for 1 to %d pixels of a row with %s: y[p][c] = sum over t of", name, most, s.about),
		"x[taps[t]+p] * w[t][c], or with add not 0, the sum is added to y. There are "+fmt.Sprint(vectors*s.lanes)+" channels c. k is at",
		"least 1.")
	get := func(name string) reg.GPVirtual {
		r := c.GP64()
		c.Load(c.Param(name), r)
		return r
	}
	t := convTile{c, s, vectors, get("y"), get("x"), get("taps"), get("w"), get("k")}
	pixels, add := get("pixels"), get("add")
	for p := most - 1; p >= 1; p-- {
		c.CMPQ(pixels, Imm(uint64(p)))
		c.JEQ(LabelRef(fmt.Sprint("pixels", p)))
	}
	for p := most; p >= 1; p-- {
		t.pixels(p, add)
	}
}

// convTile is the state of the inner kernel.
type convTile struct {
	*build.Context
	simd
	vectors          int // of channels
	y, x, taps, w, k reg.GPVirtual
}

// pixels is the loop over taps for some pixels.
func (t convTile) pixels(n int, add reg.GPVirtual) {
	label := fmt.Sprint("pixels", n)
	t.Label(label)
	sums := make([][]reg.VecVirtual, n)
	for p := range sums {
		for range t.vectors {
			v := t.register(t.Context)
			t.clear(t.Context, v)
			sums[p] = append(sums[p], v)
		}
	}
	at := t.GP64()
	t.Label(label + "tap")
	t.MOVQ(Mem{Base: t.taps}, at)
	t.ADDQ(Imm(8), t.taps)
	w := make([]reg.VecVirtual, t.vectors)
	for v := range w {
		w[v] = t.register(t.Context)
		t.VMOVUPS(Mem{Base: t.w, Disp: 4 * t.lanes * v}, w[v])
	}
	t.ADDQ(Imm(uint64(4*t.vectors*t.lanes)), t.w)
	for p := range sums {
		m := Mem{Base: t.x, Index: at, Scale: 4, Disp: 4 * p}
		if t.vectors == 1 && t.lanes == 16 && !t.pairs {
			t.VFMADD231PS_BCST(m, w[0], sums[p][0])
			continue
		}
		x := t.register(t.Context)
		t.broadcast(t.Context, m, x)
		for v := range w {
			t.madd(t.Context, w[v], x, sums[p][v])
		}
	}
	t.DECQ(t.k)
	t.JNE(LabelRef(label + "tap"))
	t.TESTQ(add, add)
	t.JEQ(LabelRef(label + "write"))
	t.each(sums, func(sum reg.VecVirtual, m Mem) { t.VADDPS(m, sum, sum) })
	t.Label(label + "write")
	t.each(sums, func(sum reg.VecVirtual, m Mem) { t.VMOVUPS(sum, m) })
	t.VZEROUPPER()
	t.RET()
}

// each calls do with every sum and its place in y.
func (t convTile) each(sums [][]reg.VecVirtual, do func(sum reg.VecVirtual, m Mem)) {
	for p, vectors := range sums {
		for v, sum := range vectors {
			do(sum, Mem{Base: t.y, Disp: 4 * t.lanes * (t.vectors*p + v)})
		}
	}
}
