package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
)

// emitDepth3Products writes those that compute sums of products.
func emitDepth3Products(l *lang) {
	for _, other := range []bool{false, true} {
		f := &images{lang: l, taps: 4}
		name, doc, step := "Depth3GradEach", "neighbours", "step int, "
		if other {
			name, doc, step, f.taps = "Depth3GradOther", "every other pixel", "", 5
		}
		f.define(name, "func(sums *float32, apart, imageSums int, y *float32, "+imagesParams+", "+step+imagesCounts+")",
			fmt.Sprintf("adds to nine vectors of sums of each image, so far apart, its products with %s, whose windows begin at %s:", l.about, doc),
			"see convDepthwiseWGrad.")
		f.products(other)
	}
}

// products computes sums of images.
func (f *images) products(other bool) {
	f.start(other)
	sums := f.fresh(9)
	down := func() { f.productsEach(sums) }
	if other {
		down = func() { f.productsOther(sums) }
	}
	f.through("", func() {
		for _, sum := range sums {
			f.clear(f.Context, sum)
		}
	}, down, func() {
		to, apart, all := f.param("sums"), f.bytes("apart"), f.register(f.Context)
		for _, sum := range sums {
			if other {
				f.order(sum)
			}
			f.VMOVUPS(Mem{Base: to}, all)
			f.VADDPS(sum, all, all)
			f.VMOVUPS(all, Mem{Base: to})
			f.ADDQ(apart, to)
		}
		f.ADDQ(f.bytes("imageSums"), f.arg("sums"))
	})
}

// nextY loads the next row of y.
func (f *images) nextY(mask int, to value) {
	if f.pair != nil {
		f.nextYOfPair(to)
		return
	}
	f.masked(Mem{Base: f.yAt}, mask, to)
	f.PREFETCHT0(Mem{Base: f.yAt, Index: f.yplane, Scale: 1})
	f.ADDQ(f.ystep, f.yAt)
}

// productsEach goes down neighbouring pixels.
func (f *images) productsEach(sums []value) {
	ends, middle, begins := f.register(f.Context), f.register(f.Context), f.register(f.Context)
	step := func(name string, first, last int) { // of the three rows of y under way, those from first to last
		f.VMOVAPS(middle, ends)
		f.VMOVAPS(begins, middle)
		if first == 0 {
			f.nextY(3, begins)
		}
		taps := f.nextTaps(name)
		for i, y := range []value{begins, middle, ends} {
			if i < first || i > last {
				continue
			}
			for t, tap := range taps {
				f.VFMADD231PS(tap, y, sums[3*i+t])
			}
		}
	}
	step("first", 0, 0)
	f.CMPQ(f.rows, Imm(1))
	f.JEQ(LabelRef("single"))
	step("second", 0, 1)
	f.Label("loop")
	f.CMPQ(f.rows, Imm(2))
	f.JEQ(LabelRef("rest"))
	step("each", 0, 2)
	f.DECQ(f.rows)
	f.JMP(LabelRef("loop"))
	f.Label("single")
	step("middle", 1, 1)
	f.JMP(LabelRef("last"))
	f.Label("rest")
	step("before", 1, 2)
	f.Label("last")
	step("end", 2, 2)
}

// productsOther goes down every other pixel.
func (f *images) productsOther(sums []value) {
	y := f.register(f.Context)
	nextY := func() {
		f.nextY(4, y)
		f.turn(y)
	}
	add := func(taps []value, kh int) {
		for t, tap := range taps {
			f.VFMADD231PS(tap, y, sums[3*kh+t])
		}
	}
	nextY()
	taps := f.nextOthers("first")
	f.Label("loop")
	add(taps, 0)
	add(f.nextOthers("middle"), 1)
	end := f.nextOthers("end")
	add(end, 2)
	f.DECQ(f.rows)
	f.JEQ(LabelRef("end"))
	nextY()
	for i := range taps {
		f.VMOVAPS(end[i], taps[i])
	}
	f.JMP(LabelRef("loop"))
	f.Label("end")
}
