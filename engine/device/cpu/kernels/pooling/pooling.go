package pooling

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// A chunk is some planes [H,W] of [N,C,H,W].
var Kernels = work.Table{
	"max_pool2d(f32)->f32,i32":      newMaxPool,
	"max_pool2d_grad(i32,f32)->f32": newMaxPoolGrad,
	"avg_pool2d(f32)->f32":          newAvgPool,
	"avg_pool2d_grad(f32)->f32":     newAvgPoolGrad,
}

// pool2d is the geometry of pooling planes of h x w to planes of oh x ow.
type pool2d struct {
	planes, h, w, oh, ow int
	kernel, stride, pad  int
	isa                  isa.ISA
	x, y                 []float32
	idx                  []int32
	taps                 []tap         // nil where windows are gone through one by one
	then                 work.Epilogue // of gradients
}

func pool2dOf(on work.Target, x, y shape.Shape, kernel, stride, pad int) pool2d {
	k := pool2d{
		planes: x[0] * x[1], h: x[2], w: x[3], oh: y[2], ow: y[3],
		kernel: kernel, stride: stride, pad: pad, isa: on.ISA,
	}
	if kernel > 0 && k.takesTaps() {
		k.taps = k.newTaps()
	}
	return k
}

func (k *pool2d) ScratchBytes() int64 { return 0 }

// per is the planes of a chunk.
func (k *pool2d) per() int { return work.RowGrain(k.h * k.w) }

func (k *pool2d) bind(x, y []byte) {
	k.x, k.y = work.Floats(x, k.planes*k.h*k.w), work.Floats(y, k.planes*k.oh*k.ow)
}

// plane is plane p of x and of y.
func (k *pool2d) plane(p int) (x, y []float32) {
	return k.x[p*k.h*k.w:][:k.h*k.w], k.y[p*k.oh*k.ow:][:k.oh*k.ow]
}

// follow calls the epilogue for planes lo..hi of dx.
func (k *pool2d) follow(lo, hi int) {
	if k.then != nil {
		k.then.After(lo, hi, 0, k.h*k.w)
	}
}

// window is the elements of window o that lie inside n elements.
func (k *pool2d) window(o, n int) (lo, hi int) {
	lo = o*k.stride - k.pad
	return max(0, lo), min(n, lo+k.kernel)
}

type maxPool struct {
	pool2d
	firsts []int32 // where each window's first element is, for taps
}

func newMaxPool(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := n.Op.(ops.MaxPool2D)
	k := &maxPool{pool2d: pool2dOf(on, work.In(n, 0).Shape, work.Out(n, 0).Shape, op.Kernel, op.Stride, op.Pad)}
	if k.stride > closeStride && k.ow < leastWindows/2 {
		k.taps = nil // most lanes would gather from beyond the end
	}
	if k.taps != nil {
		k.firsts = k.firstOf()
	}
	return k, nil
}

func (k *maxPool) Run(p work.Pool, a *work.Args) error {
	k.bind(a.In[0], a.Out[0])
	k.idx = work.Ints(a.Out[1], len(k.y))
	work.Do(p, work.CeilDiv(k.planes, k.per()), k)
	return nil
}

func (k *maxPool) Chunk(i int) {
	lo, hi := work.Interval(i, k.per(), k.planes)
	for p := lo; p < hi; p++ {
		x, y := k.plane(p)
		idx := k.idx[p*len(y):][:len(y)]
		switch {
		case k.kernel == 2 && k.stride == 2 && k.pad == 0 && len(y) > 0 &&
			maxPool2x2(k.isa, &y[0], &idx[0], &x[0], k.w, k.oh, k.ow):
		case k.taps != nil:
			k.larger(x, y, idx)
		default:
			k.largestOf(x, y, idx)
		}
	}
}

// largestOf goes through a plane window by window.
func (k *maxPool) largestOf(x, y []float32, idx []int32) {
	for oh := range k.oh {
		h0, h1 := k.window(oh, k.h)
		for ow := range k.ow {
			w0, w1 := k.window(ow, k.w)
			best := largest(x, k.w, h0, h1, w0, w1)
			y[oh*k.ow+ow], idx[oh*k.ow+ow] = x[best], int32(best)
		}
	}
}

// largest is the index of the first largest element of a window, or of its first NaN.
func largest(x []float32, w, h0, h1, w0, w1 int) int {
	best := h0*w + w0
	v := x[best]
	for h := h0; h < h1; h++ {
		for j, e := range x[h*w+w0 : h*w+w1] {
			if e > v || (e != e && v == v) {
				best, v = h*w+w0+j, e
			}
		}
	}
	return best
}

type maxPoolGrad struct {
	pool2d
	bad work.Lowest
}

func newMaxPoolGrad(n *graph.Node, on work.Target) (work.Kernel, error) {
	return &maxPoolGrad{pool2d: pool2dOf(on, work.Out(n, 0).Shape, work.In(n, 1).Shape, 0, 0, 0)}, nil
}

// Then implements [work.Follower].
func (k *maxPoolGrad) Then(e work.Epilogue) { k.then = e }

func (k *maxPoolGrad) Run(p work.Pool, a *work.Args) error {
	k.bind(a.Out[0], a.In[1])
	k.idx = work.Ints(a.In[0], len(k.y))
	k.bad.Reset()
	work.Do(p, work.CeilDiv(k.planes, k.per()), k)
	if k.bad.Position() < 0 {
		return nil
	}
	return ops.CheckPooled(k.idx, k.h*k.w)
}

func (k *maxPoolGrad) Chunk(i int) {
	lo, hi := work.Interval(i, k.per(), k.planes)
	for p := lo; p < hi; p++ {
		dx, dy := k.plane(p)
		idx := k.idx[p*len(dy):][:len(dy)]
		if !k.sideBySide(dx, dy, idx) {
			k.scatter(p*len(dy), dx, dy, idx)
		}
	}
	k.follow(lo, hi)
}

// sideBySide writes a plane as windows of 2x2 side by side. It reports false where the
// sides or an index show that windows were others.
func (k *maxPoolGrad) sideBySide(dx, dy []float32, idx []int32) bool {
	if len(dy) == 0 || k.h/2 != k.oh || k.w/2 != k.ow || !maxPoolGrad2x2(k.isa, &dx[0], &idx[0], &dy[0], k.w, k.oh, k.ow) {
		return false
	}
	clear(dx[2*k.oh*k.w:])
	if k.w%2 == 1 {
		for at := k.w - 1; at < len(dx); at += k.w {
			dx[at] = 0
		}
	}
	return true
}

// scatter adds to a plane element by element. first is the position of dy among all
// gradients.
func (k *maxPoolGrad) scatter(first int, dx, dy []float32, idx []int32) {
	clear(dx)
	for j, v := range dy {
		at := int(idx[j])
		if at < 0 || at >= len(dx) {
			k.bad.Report(first + j)
			continue
		}
		dx[at] += v
	}
}

type avgPool struct{ pool2d }

func newAvgPool(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := n.Op.(ops.AvgPool2D)
	return &avgPool{pool2dOf(on, work.In(n, 0).Shape, work.Out(n, 0).Shape, op.Kernel, op.Stride, op.Pad)}, nil
}

func (k *avgPool) Run(p work.Pool, a *work.Args) error {
	k.bind(a.In[0], a.Out[0])
	work.Do(p, work.CeilDiv(k.planes, k.per()), k)
	return nil
}

func (k *avgPool) Chunk(i int) {
	lo, hi := work.Interval(i, k.per(), k.planes)
	inv := 1 / float32(k.kernel*k.kernel)
	for p := lo; p < hi; p++ {
		x, y := k.plane(p)
		if k.taps != nil {
			k.add(x, y)
			k.isa.Vec().MulScalar(y, y, inv)
			continue
		}
		k.average(x, y, inv)
	}
}

// average goes through a plane window by window.
func (k *avgPool) average(x, y []float32, inv float32) {
	for oh := range k.oh {
		h0, h1 := k.window(oh, k.h)
		for ow := range k.ow {
			w0, w1 := k.window(ow, k.w)
			y[oh*k.ow+ow] = k.sum(x, h0, h1, w0, w1) * inv
		}
	}
}

// sum adds up a window.
func (k *avgPool) sum(x []float32, h0, h1, w0, w1 int) float32 {
	if w1-w0 == k.w && h1 > h0 {
		return float32(k.isa.Vec().Sum(x[h0*k.w : h1*k.w]))
	}
	s := float32(0)
	for h := h0; h < h1; h++ {
		for _, v := range x[h*k.w+w0 : h*k.w+w1] {
			s += v
		}
	}
	return s
}

// avgPoolGrad goes tap by tap where windows are close, and row by row where they are
// further apart.
type avgPoolGrad struct {
	pool2d
	// from[i] is the i-th window in which each column lies, or ow where there is none.
	from [][]int32
}

// closeStride is the greatest stride of windows that are close.
const closeStride = 2

func newAvgPoolGrad(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := n.Op.(ops.AvgPool2DGrad)
	k := &avgPoolGrad{pool2d: pool2dOf(on, work.Out(n, 0).Shape, work.In(n, 0).Shape, op.Kernel, op.Stride, op.Pad)}
	if k.taps != nil && k.stride > closeStride {
		k.from = k.newFrom()
	}
	return k, nil
}

func (k *avgPoolGrad) newFrom() [][]int32 {
	from := make([][]int32, work.CeilDiv(k.kernel, k.stride))
	for i := range from {
		from[i] = make([]int32, k.w)
		for w := range from[i] {
			o := work.CeilDiv(max(0, w+k.pad-k.kernel+1), k.stride) + i
			if o >= k.ow || o*k.stride > w+k.pad {
				o = k.ow
			}
			from[i][w] = int32(o)
		}
	}
	return from
}

// Then implements [work.Follower].
func (k *avgPoolGrad) Then(e work.Epilogue) { k.then = e }

func (k *avgPoolGrad) Run(p work.Pool, a *work.Args) error {
	k.bind(a.Out[0], a.In[0])
	work.Do(p, work.CeilDiv(k.planes, k.per()), k)
	return nil
}

func (k *avgPoolGrad) Chunk(i int) {
	lo, hi := work.Interval(i, k.per(), k.planes)
	inv := 1 / float32(k.kernel*k.kernel)
	for p := lo; p < hi; p++ {
		dx, dy := k.plane(p)
		switch {
		case k.from != nil:
			k.stretch(dx, dy, inv)
		case k.taps != nil:
			k.spread(dx, dy)
			k.isa.Vec().MulScalar(dx, dx, inv)
		default:
			k.share(dx, dy, inv)
		}
	}
	k.follow(lo, hi)
}

// stretch spreads each row of dy over the columns of its windows, and adds it to the
// rows of these.
func (k *avgPoolGrad) stretch(dx, dy []float32, inv float32) {
	r := work.TakeRegisters()
	parts, spread := r.All[:k.ow+1], r.All[work.RegisterElems/2:][:k.w]
	parts[k.ow] = 0 // for columns in no window
	done := 0       // rows of dx
	for o := range k.oh {
		k.isa.Vec().MulScalar(parts[:k.ow], dy[o*k.ow:][:k.ow], inv)
		for w, from := range k.from[0] {
			spread[w] = parts[from]
		}
		for _, more := range k.from[1:] {
			for w, from := range more {
				spread[w] += parts[from]
			}
		}
		h0, h1 := k.window(o, k.h)
		clear(dx[done*k.w : max(done, h0)*k.w])
		for h := h0; h < h1; h++ {
			row := dx[h*k.w:][:k.w]
			if h < done {
				k.isa.Vec().Add(row, row, spread)
			} else {
				copy(row, spread)
			}
		}
		done = max(done, h1)
	}
	clear(dx[done*k.w:])
	r.GiveBack()
}

// share goes through a plane window by window.
func (k *avgPoolGrad) share(dx, dy []float32, inv float32) {
	clear(dx)
	for oh := range k.oh {
		h0, h1 := k.window(oh, k.h)
		for ow := range k.ow {
			w0, w1 := k.window(ow, k.w)
			d := dy[oh*k.ow+ow] * inv
			for h := h0; h < h1; h++ {
				row := dx[h*k.w+w0 : h*k.w+w1]
				for j := range row {
					row[j] += d
				}
			}
		}
	}
}
