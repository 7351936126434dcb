package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// images is the state of a function that goes through images, one behind another, whose
// windows are 3x3. It goes down an image a vector of columns at a time: each row of x is
// read once, and counts for the three rows of y whose windows it is in. Masks are zero
// in the lanes whose pixel is outside of the image, and no such pixel is read.
type images struct {
	*lang
	x, y, cols, masks                 reg.GPVirtual // of the image
	vectors                           Mem           // of columns that are left
	xAt, yAt, row, rows, xstep, ystep reg.GPVirtual // in a vector of columns, and the rows of y that are left
	step                              reg.GPVirtual // from a window's column to its next one
	xplane, yplane                    reg.GPVirtual
	taps                              int      // masks of a vector of columns
	opmasks                           []Op     // which hold them, where vectors have 16 lanes
	part                              Op       // the mask of a row of y that fills part of a vector
	counts                            Mem      // the numbers from 0 on
	ordered, turned                   value    // what [images.order] and [images.turn] do, where vectors have 16 lanes
	later                             []func() // what is emitted behind the function
	*pair                                      // nil where each image has vectors of its own
}

// What the functions have in common: their parameters and a text about them.
const (
	imagesParams = "ystep, yplane int, x *float32, xstep, xplane, height, first, from int"
	imagesCounts = "cols *int, masks *int32, vectors, rows, planes int"
)

// emitDepth3 writes the inner kernels of a convolution in which each channel has 3x3
// weights of its own.
func emitDepth3(c *build.Context, s simd) {
	counts := c.StaticGlobal("counts")
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 12 {
		c.AddDatum(4*i, U32(i))
	}
	l := &lang{c, s, map[string]bool{}}
	emitDepth3Sums(l, counts)
	f := &images{lang: l, taps: 2, counts: counts}
	f.define("Depth3Spread", "func(y *float32, "+imagesParams+", w *float32, narrow int, "+imagesCounts+")",
		fmt.Sprintf("adds up 3x3 taps for images with %s, of which each other row and column begins a window: see convDepthwise3.", s.about))
	f.spread()
	emitDepth3Products(l)
}

// emitDepth3Sums writes those that compute pixels.
func emitDepth3Sums(l *lang, counts Mem) {
	for _, other := range []bool{false, true} {
		f := &images{lang: l, taps: 3, counts: counts}
		name, doc, step := "Depth3Each", "neighbours", "step, "
		if other {
			name, doc, step, f.taps = "Depth3Other", "every other pixel", "", 4
		}
		f.define(name, "func(y *float32, "+imagesParams+", w *float32, "+step+"narrow int, "+imagesCounts+")",
			fmt.Sprintf("adds up 3x3 taps for images with %s, whose windows begin at %s: see convDepthwise3.", l.about, doc))
		f.sums(other)
	}
}

// arg is an argument where the caller has put it.
func (l *lang) arg(name string) Mem {
	p, err := l.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
}

// through goes through all images and their vectors of columns.
func (f *images) through(label string, begin, down, end func()) {
	f.Label(label + "plane")
	begin()
	f.cols, f.masks = f.param("cols"), f.param("masks")
	f.MOVQ(f.param("vectors"), f.vectors)
	f.Label(label + "vector")
	for i, mask := range f.opmasks {
		f.KMOVW(Mem{Base: f.masks, Disp: 4 * i}, mask)
	}
	f.xAt, f.yAt = f.GP64(), f.GP64()
	f.MOVQ(Mem{Base: f.cols}, f.xAt)
	f.ADDQ(f.arg("from"), f.xAt)
	f.LEAQ(Mem{Base: f.x, Index: f.xAt, Scale: 4}, f.xAt)
	f.MOVQ(Mem{Base: f.cols, Disp: 8}, f.yAt)
	f.LEAQ(Mem{Base: f.y, Index: f.yAt, Scale: 4}, f.yAt)
	f.row, f.rows = f.param("first"), f.param("rows")
	down()
	f.ADDQ(Imm(16), f.cols)
	if f.opmasks == nil {
		f.ADDQ(count(4*f.lanes*f.taps), f.masks)
	} else {
		f.ADDQ(count(4*f.taps), f.masks)
	}
	f.DECQ(f.vectors)
	f.JNE(LabelRef(label + "vector"))
	end()
	f.ADDQ(f.xplane, f.x)
	f.ADDQ(f.yplane, f.y)
	f.DECQ(f.arg("planes"))
	f.JNE(LabelRef(label + "plane"))
	f.finish()
}

// finish ends a function, and emits what follows.
func (f *images) finish() {
	f.done()
	for len(f.later) > 0 { // which may have more to follow
		emit := f.later[0]
		f.later = f.later[1:]
		emit()
	}
}

// start takes the arguments.
func (f *images) start(other bool) {
	f.x, f.y, f.xstep, f.ystep = f.param("x"), f.param("y"), f.bytes("xstep"), f.bytes("ystep")
	f.xplane, f.yplane = f.bytes("xplane"), f.bytes("yplane")
	f.vectors = f.AllocLocal(8)
	if !other {
		f.step = f.bytes("step")
	}
	if f.lanes == 16 {
		f.widen(other)
	}
}

// masked loads what a mask of the vector of columns leaves of the pixels at m.
func (f *images) masked(m Mem, mask int, to value) {
	if f.opmasks != nil {
		f.load(f.Context, m, f.opmasks[mask], to, to)
		return
	}
	f.load(f.Context, m, Mem{Base: f.masks, Disp: 4 * f.lanes * mask}, to, to)
}

// nextRow has load load the taps of the next row of x, or makes them zeros if it is outside.
func (f *images) nextRow(label string, taps []value, load func()) {
	f.CMPQ(f.row, f.arg("height"))
	f.JAE(LabelRef(label + "outside"))
	load()
	f.Label(label + "inside")
	f.INCQ(f.row)
	f.ADDQ(f.xstep, f.xAt)
	f.later = append(f.later, func() {
		f.Label(label + "outside")
		for _, tap := range taps {
			f.clear(f.Context, tap)
		}
		f.JMP(LabelRef(label + "inside"))
	})
}

// fresh are n registers.
func (f *images) fresh(n int) []value {
	all := make([]value, n)
	for i := range all {
		all[i] = f.register(f.Context)
	}
	return all
}

// nextTaps loads three neighbours for each lane.
func (f *images) nextTaps(label string) []value {
	taps := f.fresh(3)
	f.nextRow(label, taps, func() {
		if f.pair != nil {
			f.tapsOfPair(taps)
			return
		}
		f.masked(Mem{Base: f.xAt}, 0, taps[0])
		f.masked(Mem{Base: f.xAt, Index: f.step, Scale: 1}, 1, taps[1])
		f.masked(Mem{Base: f.xAt, Index: f.step, Scale: 2}, 2, taps[2])
		f.PREFETCHT0(Mem{Base: f.xAt, Index: f.xplane, Scale: 1})
	})
	return taps
}

// nextOthers does so for lanes that are two pixels apart, in the order of [images.order].
func (f *images) nextOthers(label string) []value {
	if f.pair != nil {
		return f.nextTaps(label)
	}
	taps := f.fresh(3)
	f.nextRow(label, taps, func() {
		high := f.register(f.Context)
		f.masked(Mem{Base: f.xAt}, 0, taps[1])
		f.masked(Mem{Base: f.xAt, Disp: 4 * f.lanes}, 1, high)
		f.VSHUFPS(Imm(0x88), high, taps[1], taps[0])
		f.VSHUFPS(Imm(0xdd), high, taps[1], taps[1])
		f.masked(Mem{Base: f.xAt, Disp: 8}, 2, taps[2])
		f.masked(Mem{Base: f.xAt, Disp: 4*f.lanes + 8}, 3, high)
		f.VSHUFPS(Imm(0x88), high, taps[2], taps[2])
		f.PREFETCHT0(Mem{Base: f.xAt, Index: f.xplane, Scale: 1})
		f.PREFETCHT0(Mem{Base: f.xAt, Index: f.xplane, Scale: 1, Disp: 4 * f.lanes})
	})
	return taps
}

// order brings every other pixel, as VSHUFPS leaves them, into their order. Those of pairs are in it.
func (f *images) order(v value) {
	switch {
	case f.pair != nil:
	case f.ordered != nil:
		f.VPERMPD(v, f.ordered, v)
	default:
		f.VPERMPD(Imm(0xd8), v, v)
	}
}

// turn brings pixels into the order in which VSHUFPS leaves others.
func (f *images) turn(v value) {
	if f.turned != nil {
		f.VPERMPD(v, f.turned, v)
		return
	}
	f.order(v) // which is its own inverse
}

// sums computes images.
func (f *images) sums(other bool) {
	f.start(other)
	down := f.sumsEach
	if other {
		down = f.sumsOther
	}
	f.weighted(down)
}

// weighted goes through images with each one's weights, for rows that fill vectors, and for narrow ones.
func (f *images) weighted(down func(label string, w []value)) {
	w, narrow := f.fresh(9), f.param("narrow")
	f.TESTQ(narrow, narrow)
	f.JNE(LabelRef("narrow"))
	for _, label := range []string{"", "narrow"} {
		if label != "" {
			f.Label(label)
			if f.lanes == 16 {
				f.part = f.simd.masks(f.Context, narrow, 1)[0]
			}
		}
		f.through(label, func() {
			at := f.param("w")
			for i := range w {
				f.broadcast(f.Context, Mem{Base: at, Disp: 4 * i}, w[i])
			}
			f.ADDQ(Imm(36), f.arg("w"))
		}, func() { down(label, w) }, func() {})
	}
}

// put writes a row of y, of fewer pixels than a vector has lanes if it is narrow.
func (f *images) put(label, narrow string, sum, tmp value) {
	f.PREFETCHT0(Mem{Base: f.yAt, Index: f.yplane, Scale: 1})
	switch {
	case f.pair != nil:
		f.putPair(sum)
	case narrow == "":
		f.VMOVUPS(sum, Mem{Base: f.yAt})
	case f.part != nil:
		f.VMOVUPS(sum, f.part, Mem{Base: f.yAt})
	default:
		f.putSome(label, f.param("narrow"), 0, sum, tmp)
	}
	f.ADDQ(f.ystep, f.yAt)
}

// putSome writes the first n lanes, of more than none and fewer than all, behind some bytes of a row of y. Two
// halves that overlap take less time than a mask.
func (f *images) putSome(label string, n reg.GPVirtual, behind int, v, tmp value) {
	at := f.GP64()
	f.CMPQ(n, Imm(4))
	f.JLT(LabelRef(label + "few"))
	f.LEAQ(f.counts, at)
	f.VMOVUPS(v.AsX(), Mem{Base: f.yAt, Disp: behind})
	f.VMOVUPS(Mem{Base: at, Index: n, Scale: 4, Disp: -16}, tmp)
	f.VPERMPS(v, tmp, tmp)
	f.VMOVUPS(tmp.AsX(), Mem{Base: f.yAt, Index: n, Scale: 4, Disp: behind - 16})
	f.Label(label + "written")
	f.later = append(f.later, func() {
		f.Label(label + "few")
		f.LEAQ(maskTable(f.Context), at)
		f.NEGQ(n)
		f.store(f.Context, v, Mem{Base: at, Index: n, Scale: 4, Disp: maskZeros}, tmp, Mem{Base: f.yAt, Disp: behind})
		f.JMP(LabelRef(label + "written"))
	})
}

// sumsEach goes down neighbouring pixels. Three rows of y are under way: the one whose
// windows end with the row of x, the one they are in the middle of, and the one they
// begin with.
func (f *images) sumsEach(label string, w []value) {
	ends, middle, begins := f.register(f.Context), f.register(f.Context), f.register(f.Context)
	step := func(name string, first, last int) { // of the three, those from first to last
		name = label + name
		taps := f.nextTaps(name)
		f.clear(f.Context, begins)
		for i, sum := range []value{begins, middle, ends} {
			if i < first || i > last {
				continue
			}
			for t, tap := range taps {
				f.VFMADD231PS(tap, w[3*i+t], sum)
			}
		}
		if last == 2 {
			f.put(name, label, ends, taps[0])
		}
		f.VMOVAPS(middle, ends)
		f.VMOVAPS(begins, middle)
	}
	step("first", 0, 0)
	step("second", 0, 1)
	f.Label(label + "loop")
	f.CMPQ(f.rows, Imm(2))
	f.JLE(LabelRef(label + "rest"))
	step("each", 0, 2)
	f.DECQ(f.rows)
	f.JMP(LabelRef(label + "loop"))
	f.Label(label + "rest")
	f.JLT(LabelRef(label + "last"))
	step("before", 1, 2)
	f.Label(label + "last")
	step("end", 2, 2)
}

// sumsOther goes down every other pixel.
func (f *images) sumsOther(label string, w []value) {
	sum, next := f.register(f.Context), f.register(f.Context)
	add := func(taps []value, kh int, sum value) {
		for t, tap := range taps {
			f.VFMADD231PS(tap, w[3*kh+t], sum)
		}
	}
	f.clear(f.Context, next)
	add(f.nextOthers(label+"first"), 0, next)
	f.Label(label + "loop")
	f.VMOVAPS(next, sum)
	add(f.nextOthers(label+"middle"), 1, sum)
	taps := f.nextOthers(label + "end")
	add(taps, 2, sum)
	f.clear(f.Context, next)
	add(taps, 0, next)
	f.order(sum)
	f.put(label, label, sum, taps[0])
	f.DECQ(f.rows)
	f.JNE(LabelRef(label + "loop"))
}

// spread goes down images whose every other row and column begins a window. A row of x makes two of y, of which
// the second one needs the next row of x, too, and a column two columns.
func (f *images) spread() {
	f.start(true)
	f.weighted(func(label string, w []value) {
		x, below := f.fresh(2), f.fresh(2) // each with its next column
		load := func(name string, to []value) {
			f.nextRow(label+name, to, func() {
				for i, v := range to {
					f.masked(Mem{Base: f.xAt, Disp: 4 * i}, i, v)
					f.order(v)
				}
				f.PREFETCHT0(Mem{Base: f.xAt, Index: f.xplane, Scale: 1})
			})
		}
		tap := func(x value, weight int, sum value) { f.VFMADD231PS(x, w[weight], sum) }
		load("first", x)
		f.Label(label + "loop")
		load("next", below)
		even, odd := f.zero(), f.zero()
		tap(x[0], 4, even)
		tap(x[1], 3, odd)
		tap(x[0], 5, odd)
		f.zip(label+"upper", label, even, odd)
		f.DECQ(f.rows)
		f.JEQ(LabelRef(label + "end"))
		even, odd = f.zero(), f.zero()
		tap(below[0], 1, even)
		tap(x[0], 7, even)
		tap(below[1], 0, odd)
		tap(below[0], 2, odd)
		tap(x[1], 6, odd)
		tap(x[0], 8, odd)
		f.zip(label+"lower", label, even, odd)
		for i := range x {
			f.VMOVAPS(below[i], x[i])
		}
		f.DECQ(f.rows)
		f.JNE(LabelRef(label + "loop"))
		f.Label(label + "end")
	})
}

// zip writes a row of y of its even and odd columns, which have the order of [images.order].
func (f *images) zip(label, narrow string, even, odd value) {
	low := f.register(f.Context)
	f.PREFETCHT0(Mem{Base: f.yAt, Index: f.yplane, Scale: 1})
	f.VUNPCKLPS(odd, even, low)
	f.VUNPCKHPS(odd, even, even)
	if narrow == "" {
		f.VMOVUPS(low, Mem{Base: f.yAt})
		f.VMOVUPS(even, Mem{Base: f.yAt, Disp: 4 * f.lanes})
		f.ADDQ(f.ystep, f.yAt)
		return
	}
	n := f.param("narrow")
	f.CMPQ(n, Imm(uint64(f.lanes)))
	f.JLT(LabelRef(label + "half"))
	f.VMOVUPS(low, Mem{Base: f.yAt})
	f.JEQ(LabelRef(label + "zipped"))
	f.SUBQ(Imm(uint64(f.lanes)), n)
	f.putSome(label+"high", n, 4*f.lanes, even, odd)
	f.Label(label + "zipped")
	f.ADDQ(f.ystep, f.yAt)
	f.later = append(f.later, func() {
		f.Label(label + "half")
		f.putSome(label+"low", n, 0, low, odd)
		f.JMP(LabelRef(label + "zipped"))
	})
}
