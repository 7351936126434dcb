package kernels

import "math"

// tap is a place in the windows of a plane, and those windows in which it lies
// inside the plane: rows x cols from window (oh, ow) on, where it is at element
// (h, w).
type tap struct{ oh, ow, rows, cols, h, w int }

// leastWindows is the least windows of a plane, and a quarter of it of a row,
// for which taps are worth their calls.
const leastWindows = 16

// takesTaps reports whether planes are better gone through tap by tap, all
// windows at once, than window by window.
func (k *pool2d) takesTaps() bool {
	return k.isa > Generic && k.oh*k.ow >= leastWindows && k.ow >= leastWindows/4 && k.w <= registerElems/2
}

// newTaps lists the taps of a window in the order of memory, but for those that
// never lie inside.
func (k *pool2d) newTaps() []tap {
	var taps []tap
	for kh := range k.kernel {
		oh, rows := k.inside(kh, k.oh, k.h)
		for kw := range k.kernel {
			ow, cols := k.inside(kw, k.ow, k.w)
			if rows > 0 && cols > 0 {
				taps = append(taps, tap{oh, ow, rows, cols, oh*k.stride + kh - k.pad, ow*k.stride + kw - k.pad})
			}
		}
	}
	return taps
}

// inside is the first of n windows whose element i is inside size elements, and
// in how many it is.
func (k *pool2d) inside(i, n, size int) (first, count int) {
	first = ceilDiv(max(0, k.pad-i), k.stride)
	end := min(n, ceilDiv(max(0, size+k.pad-i), k.stride))
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

// larger is largestOf, tap by tap.
func (k *maxPool) larger(x, y []float32, idx []int32) {
	copy(idx, k.firsts)
	fill(y, float32(math.Inf(-1)))
	for _, t := range k.taps {
		o, at := t.oh*k.ow+t.ow, t.h*k.w+t.w
		k.isa.maxTap(k.stride, y[o:], idx[o:], k.ow, x[at:], k.stride*k.w, t.rows, t.cols, at)
	}
}

// add adds up the windows of x, some rows of them at a time: first down their
// columns, then across.
func (k *avgPool) add(x, y []float32) {
	r := takeRegisters()
	per := registerElems / k.w
	for o0 := 0; o0 < k.oh; o0 += per {
		o1 := min(o0+per, k.oh)
		sums, out := r.all[:(o1-o0)*k.w], y[o0*k.ow:o1*k.ow]
		clear(sums)
		for i := range k.kernel {
			first, count := k.inside(i, k.oh, k.h)
			lo, hi := max(first, o0), min(first+count, o1)
			if lo < hi {
				k.isa.addTap(1, sums[(lo-o0)*k.w:], k.w, x[(lo*k.stride+i-k.pad)*k.w:], k.stride*k.w, hi-lo, k.w)
			}
		}
		clear(out)
		for i := range k.kernel {
			if first, count := k.inside(i, k.ow, k.w); count > 0 {
				k.isa.addTap(k.stride, out[first:], k.ow, sums[first*k.stride+i-k.pad:], k.w, o1-o0, count)
			}
		}
	}
	r.giveBack()
}

// spread adds dy to the windows of dx.
func (k *avgPoolGrad) spread(dx, dy []float32) {
	clear(dx)
	for _, t := range k.taps {
		k.isa.spreadTap(k.stride, dx[t.h*k.w+t.w:], k.stride*k.w, dy[t.oh*k.ow+t.ow:], k.ow, t.rows, t.cols)
	}
}
