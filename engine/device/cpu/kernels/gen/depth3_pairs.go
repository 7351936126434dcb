package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitDepth3Wide writes those of emitDepth3's functions for which vectors of sixteen lanes are worth it, and those
// for pairs of images.
func emitDepth3Wide(c *build.Context, s simd) {
	l := &lang{c, s, map[string]bool{}}
	emitDepth3Sums(l, Mem{})
	emitDepth3Products(l)
	for _, other := range []bool{false, true} {
		name, doc := "", "neighbours"
		if other {
			name, doc = "Other", "every other pixel"
		}
		f := &images{lang: l, pair: &pair{}}
		f.define("Depth3Pairs"+name, "func(y *float32, "+imagesParams+", w *float32, "+pairsCounts+")",
			fmt.Sprintf("adds up 3x3 taps for pairs of narrow images with %s, whose windows begin at %s: see convDepthwise3.", s.about, doc))
		f.sumsOfPairs(other)
		f = &images{lang: l, pair: &pair{}}
		f.define("Depth3GradPairs"+name, "func(sums *float32, apart, imageSums int, y *float32, "+imagesParams+", "+pairsCounts+")",
			fmt.Sprintf("adds to nine vectors of sums of each image, so far apart, its products with %s, for pairs of narrow images whose", s.about),
			"windows begin at "+doc+": see convDepthwiseWGrad.")
		f.productsOfPairs(other)
	}
}

// widen takes opmask registers for the masks of a vector of columns, and what brings every other pixel into order.
func (f *images) widen(other bool) {
	for range f.taps {
		f.opmasks = append(f.opmasks, f.K())
	}
	if other {
		f.ordered = f.copy(f.eighths("ordered", 0, 2, 4, 6, 1, 3, 5, 7))
		if f.taps == 5 { // one is y's
			f.turned = f.copy(f.eighths("turned", 0, 4, 1, 5, 2, 6, 3, 7))
		}
	}
}

// eighths is a constant vector, an eighth of which is each number.
func (l *lang) eighths(name string, numbers ...uint64) Mem {
	if !l.constants[name] {
		l.constants[name] = true
		l.StaticGlobal(name)
		l.DataAttributes(attr.RODATA | attr.NOPTR)
		for i, n := range numbers {
			l.AddDatum(8*i, U64(n))
		}
	}
	return NewDataAddr(Symbol{Name: name, Static: true}, 0)
}

// pair is the state of a function that goes through images of at most eight columns of y two at a time. The second
// one's are in the upper half of each vector.
type pair struct {
	from         [3]value // where each tap is, in a row of the first image and one of the second behind it
	inside       [3]Op    // the mask of each tap
	xrow         Op       // the mask of a row of x
	first, again Op       // those of a row of y, of the first image and of the second
	upper        Op       // that of the upper half
	next         reg.GPVirtual
}

// pairsCounts are the last parameters of functions for pairs. layout is what columns.addPairs lays out.
const pairsCounts = "layout *int32, rows, pairs int"

// throughPairs goes through all pairs.
func (f *images) throughPairs(begin, down, end func()) {
	f.x, f.y, f.xstep, f.ystep = f.param("x"), f.param("y"), f.bytes("xstep"), f.bytes("ystep")
	f.xplane, f.yplane, f.next = f.bytes("xplane"), f.bytes("yplane"), f.GP64()
	f.LEAQ(Mem{Base: f.xplane, Index: f.xplane, Scale: 2}, f.next)
	layout := f.param("layout")
	for i := range f.from {
		f.from[i] = f.copy(Mem{Base: layout, Disp: 64 * i})
	}
	mask := func(i int) Op {
		k := f.K()
		f.KMOVW(Mem{Base: layout, Disp: 64*len(f.from) + 4*i}, k)
		return k
	}
	for i := range f.inside {
		f.inside[i] = mask(i)
	}
	f.xrow, f.first, f.again, f.upper = mask(3), mask(4), mask(5), mask(6)
	f.Label("pair")
	begin()
	f.xAt, f.yAt = f.GP64(), f.GP64()
	f.MOVQ(f.arg("from"), f.xAt)
	f.LEAQ(Mem{Base: f.x, Index: f.xAt, Scale: 4}, f.xAt)
	f.MOVQ(f.y, f.yAt)
	f.row, f.rows = f.param("first"), f.param("rows")
	down()
	end()
	f.LEAQ(Mem{Base: f.x, Index: f.xplane, Scale: 2}, f.x)
	f.LEAQ(Mem{Base: f.y, Index: f.yplane, Scale: 2}, f.y)
	f.DECQ(f.arg("pairs"))
	f.JNE(LabelRef("pair"))
	f.finish()
}

// tapsOfPair loads the taps of a row of x.
func (f *images) tapsOfPair(taps []value) {
	second := f.register(f.Context)
	f.load(f.Context, Mem{Base: f.xAt}, f.xrow, taps[0], taps[0])
	f.load(f.Context, Mem{Base: f.xAt, Index: f.xplane, Scale: 1}, f.xrow, second, second)
	f.VMOVAPS(taps[0], taps[1])
	f.VMOVAPS(taps[0], taps[2])
	for i, tap := range taps {
		f.VPERMT2PS_Z(second, f.from[i], f.inside[i], tap)
	}
	f.PREFETCHT0(Mem{Base: f.xAt, Index: f.xplane, Scale: 2})
	f.PREFETCHT0(Mem{Base: f.xAt, Index: f.next, Scale: 1})
}

// nextYOfPair loads the next row of y.
func (f *images) nextYOfPair(to value) {
	f.load(f.Context, Mem{Base: f.yAt}, f.first, to, to)
	f.VMOVUPS(Mem{Base: f.yAt, Index: f.yplane, Scale: 1, Disp: -32}, f.again, to)
	f.PREFETCHT0(Mem{Base: f.yAt, Index: f.yplane, Scale: 2})
	f.ADDQ(f.ystep, f.yAt)
}

// putPair writes a row of y.
func (f *images) putPair(sum value) {
	f.VMOVUPS(sum, f.first, Mem{Base: f.yAt})
	f.VMOVUPS(sum, f.again, Mem{Base: f.yAt, Index: f.yplane, Scale: 1, Disp: -32})
}

// sumsOfPairs computes images.
func (f *images) sumsOfPairs(other bool) {
	w := f.fresh(9)
	down := f.sumsEach
	if other {
		down = f.sumsOther
	}
	f.throughPairs(func() {
		at := f.param("w")
		for i := range w {
			f.broadcast(f.Context, Mem{Base: at, Disp: 4 * i}, w[i])
			f.VBROADCASTSS(Mem{Base: at, Disp: 4 * (9 + i)}, f.upper, w[i])
		}
		f.ADDQ(Imm(2*36), f.arg("w"))
	}, func() { down("", w) }, func() {})
}

// productsOfPairs computes sums of images.
func (f *images) productsOfPairs(other bool) {
	sums := f.fresh(9)
	down := f.productsEach
	if other {
		down = f.productsOther
	}
	f.throughPairs(func() {
		for _, sum := range sums {
			f.clear(f.Context, sum)
		}
	}, func() { down(sums) }, func() {
		to, apart, image, second, all := f.param("sums"), f.bytes("apart"), f.bytes("imageSums"), f.YMM(), f.YMM()
		for _, sum := range sums {
			f.VEXTRACTF32X8(Imm(1), sum, second)
			for _, x := range []struct {
				sum reg.VecVirtual
				at  Mem
			}{{sum, Mem{Base: to}}, {second, Mem{Base: to, Index: image, Scale: 1}}} {
				f.VMOVUPS(x.at, all)
				f.VADDPS(x.sum.AsY(), all, all) // of two NaNs, the one that was there stays
				f.VMOVUPS(all, x.at)
			}
			f.ADDQ(apart, to)
		}
		f.ADDQ(image, image)
		f.ADDQ(image, f.arg("sums"))
	})
}
