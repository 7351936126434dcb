package pooling

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// tap is one element of every window, and the windows in which it lies inside the
// plane: rows x cols of them from window (oh, ow) on. In that first window it is
// element (h, w) of the plane.
type tap struct{ oh, ow, rows, cols, h, w int }

// leastWindows is the fewest windows of a plane for which taps are worth their calls;
// of a row, a quarter of that.
const leastWindows = 16

// takesTaps reports whether planes are better gone through tap by tap, all windows at
// once, than window by window.
func (k *pool2d) takesTaps() bool {
	return k.isa > isa.Generic && k.oh*k.ow >= leastWindows && k.ow >= leastWindows/4 && k.w <= work.RegisterElems/2
}

// newTaps lists the taps of a window that ever lie inside, in the order of memory.
func (k *pool2d) newTaps() []tap {
	var taps []tap
	for kh := range k.kernel {
		oh, rows := k.inside(kh, k.oh, k.h)
		for kw := range k.kernel {
			ow, cols := k.inside(kw, k.ow, k.w)
			if rows > 0 && cols > 0 {
				taps = append(taps, tap{
					oh: oh, ow: ow, rows: rows, cols: cols, h: oh*k.stride + kh - k.pad, w: ow*k.stride + kw - k.pad,
				})
			}
		}
	}
	return taps
}

// inside is the first of n windows whose element i is inside size elements, and the
// number of such windows.
func (k *pool2d) inside(i, n, size int) (first, count int) {
	first = work.CeilDiv(max(0, k.pad-i), k.stride)
	end := min(n, work.CeilDiv(max(0, size+k.pad-i), k.stride))
	return first, end - first
}

// firstOf lists where the first element of each window is.
func (k *pool2d) firstOf() []int32 {
	at := make([]int32, k.oh*k.ow)
	for i := range at {
		h, _ := k.window(i/k.ow, k.h)
		w, _ := k.window(i%k.ow, k.w)
		at[i] = int32(h*k.w + w)
	}
	return at
}

// larger is largestOf, tap by tap: every other row of windows, then the rows between. The end of a row is written by
// a vector with a mask, and reading the next row would wait for it, since that row begins within the vector.
func (k *maxPool) larger(x, y []float32, idx []int32) {
	copy(idx, k.firsts)
	work.Fill(y, float32(math.Inf(-1)))
	for _, t := range k.taps {
		for first := range min(2, t.rows) {
			o, at := (t.oh+first)*k.ow+t.ow, (t.h+first*k.stride)*k.w+t.w
			maxTap(k.isa, k.stride, y[o:], idx[o:], 2*k.ow, x[at:], 2*k.stride*k.w, (t.rows-first+1)/2, t.cols, at)
		}
	}
}

// add adds up the windows of x, some rows of them at a time: first down their
// columns, then across.
func (k *avgPool) add(x, y []float32) {
	r := work.TakeRegisters()
	per := work.RegisterElems / k.w
	for o0 := 0; o0 < k.oh; o0 += per {
		o1 := min(o0+per, k.oh)
		sums, out := r.All[:(o1-o0)*k.w], y[o0*k.ow:o1*k.ow]
		clear(sums)
		for i := range k.kernel {
			first, count := k.inside(i, k.oh, k.h)
			lo, hi := max(first, o0), min(first+count, o1)
			if lo < hi {
				addTap(k.isa, 1, sums[(lo-o0)*k.w:], k.w, x[(lo*k.stride+i-k.pad)*k.w:], k.stride*k.w, hi-lo, k.w)
			}
		}
		clear(out)
		for i := range k.kernel {
			if first, count := k.inside(i, k.ow, k.w); count > 0 {
				addTap(k.isa, k.stride, out[first:], k.ow, sums[first*k.stride+i-k.pad:], k.w, o1-o0, count)
			}
		}
	}
	r.GiveBack()
}

// spread adds dy to the windows of dx.
func (k *avgPoolGrad) spread(dx, dy []float32) {
	clear(dx)
	for _, t := range k.taps {
		spreadTap(k.isa, k.stride, dx[t.h*k.w+t.w:], k.stride*k.w, dy[t.oh*k.ow+t.ow:], k.ow, t.rows, t.cols)
	}
}

// maxTap takes one element of each window into account, windows starting at every
// step-th element of x: y and idx, rows of ystride elements, are the largest so far and
// where it is; at is where in its plane x begins. It needs vectors, as the other taps do.
func maxTap(set isa.ISA, step int, y []float32, idx []int32, ystride int, x []float32, xstride, rows, cols, at int) {
	_, _, _ = y[(rows-1)*ystride+cols-1], idx[(rows-1)*ystride+cols-1], x[(rows-1)*xstride+(cols-1)*step]
	switch step {
	case 1:
		maxTapEach(set, &y[0], &idx[0], ystride, &x[0], xstride, rows, cols, at)
	case 2:
		maxTapOther(set, &y[0], &idx[0], ystride, &x[0], xstride, rows, cols, at)
	default:
		maxTapApart(set, step, &y[0], &idx[0], ystride, &x[0], xstride, rows, cols, at)
	}
}

// addTap adds every step-th element of rows of x to cols of y.
func addTap(set isa.ISA, step int, y []float32, ystride int, x []float32, xstride, rows, cols int) {
	_, _ = y[(rows-1)*ystride+cols-1], x[(rows-1)*xstride+(cols-1)*step]
	switch step {
	case 1:
		addTapEach(set, &y[0], ystride, &x[0], xstride, rows, cols)
	case 2:
		addTapOther(set, &y[0], ystride, &x[0], xstride, rows, cols)
	default:
		addTapApart(set, step, &y[0], ystride, &x[0], xstride, rows, cols)
	}
}

// spreadTap adds cols elements of rows of x to every element of y, or to every other
// one.
func spreadTap(set isa.ISA, step int, y []float32, ystride int, x []float32, xstride, rows, cols int) {
	_, _ = y[(rows-1)*ystride+(cols-1)*step], x[(rows-1)*xstride+cols-1]
	if step == 1 {
		addTap(set, 1, y, ystride, x, xstride, rows, cols)
		return
	}
	spreadTapOther(set, &y[0], ystride, &x[0], xstride, rows, cols)
}
