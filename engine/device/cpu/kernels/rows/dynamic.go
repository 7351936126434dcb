package rows

import (
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

var dynamicKernels = work.Table{
	"nonzero(f32)->i32,i32":        newNonzero,
	"nonzero(i32)->i32,i32":        newNonzero,
	"unique(f32)->f32,i32,i32,i32": newUnique,
	"unique(i32)->i32,i32,i32,i32": newUnique,
}

// nonzero lists elements that are not 0, on one thread: each place follows from those before.
type nonzero struct {
	n, rank int
	dims    []int
	strides []int
	mask    int32 // of the bits that make an element other than 0
}

func newNonzero(n *graph.Node, _ work.Target) (work.Kernel, error) {
	x := work.In(n, 0)
	k := nonzero{n: x.Elems(), rank: x.Shape.Rank(), dims: x.Shape, strides: x.Shape.Strides(), mask: -1}
	if x.DType == shape.Float32 {
		k.mask = math.MaxInt32 // the sign is none of them
	}
	return k, nil
}

func (nonzero) ScratchBytes() int64 { return 0 }

func (k nonzero) Run(_ work.Pool, a *work.Args) error {
	places, n := work.Ints(a.Out[0], k.n*k.rank), 0
	for i, x := range work.Ints(a.In[0], k.n) {
		if x&k.mask == 0 {
			continue
		}
		place := places[n*k.rank:][:k.rank]
		for axis, step := range k.strides {
			place[axis] = int32(i / step % k.dims[axis])
		}
		n++
	}
	clear(places[n*k.rank:])
	work.Ints(a.Out[1], 1)[0] = int32(n)
	return nil
}

// unique sorts elements, on one thread.
type unique struct {
	n      int
	floats bool
}

func newUnique(n *graph.Node, _ work.Target) (work.Kernel, error) {
	x := work.In(n, 0)
	return unique{n: x.Elems(), floats: x.DType == shape.Float32}, nil
}

// key is larger for a larger element, the same for 0 and -0, and the largest for NaN. x is the element's bits.
func (k unique) key(x int32) int32 {
	if !k.floats {
		return x
	}
	magnitude := x & math.MaxInt32
	switch {
	case magnitude > infinity:
		return math.MaxInt32
	case x < 0:
		return -magnitude
	}
	return x
}

// element is the bits of a key's element.
func (k unique) element(key int32) int32 {
	switch {
	case !k.floats:
	case key == math.MaxInt32:
		return quietNaN
	case key < 0:
		return -key | math.MinInt32
	}
	return key
}

// The bits of float32 numbers.
const (
	infinity = 0x7f800000
	quietNaN = 0x7fc00000
)

// ScratchBytes is for each element's key and, below it, its place.
func (k unique) ScratchBytes() int64 { return 8 * int64(k.n) }

func (k unique) Run(_ work.Pool, a *work.Args) error {
	values, counts, index := work.Ints(a.Out[0], k.n), work.Ints(a.Out[1], k.n), work.Ints(a.Out[2], k.n)
	pairs, n := shape.View[int64](a.Scratch)[:k.n], 0
	for i, x := range work.Ints(a.In[0], k.n) {
		pairs[i] = int64(k.key(x))<<32 | int64(i)
	}
	slices.Sort(pairs)
	for i, p := range pairs {
		if i == 0 || p>>32 != pairs[i-1]>>32 {
			values[n], counts[n] = k.element(int32(p>>32)), 0
			n++
		}
		index[int32(p)] = int32(n - 1)
		counts[n-1]++
	}
	clear(values[n:])
	clear(counts[n:])
	totals := work.Ints(a.Out[3], 2)
	totals[0], totals[1] = int32(n), int32(n)
	return nil
}
