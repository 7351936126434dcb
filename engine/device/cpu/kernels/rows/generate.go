package rows

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var generateKernels = work.Table{
	"cache_write(f32,f32,i32)->f32": newCacheWrite,
	"positions(i32)->i32":           newPositions,
	"last_row(f32,i32)->f32":        newLastRow,
}

// extents are those of a chunk of t rows for each of b sequences.
type extents struct {
	b, t int
	pair []int32 // position and rows that count, by sequence
}

// bind reads the extents, for caches of so many positions.
func (e *extents) bind(mem []byte, cached int) error {
	e.pair = work.Ints(mem, 2*e.b)
	for b := range e.b {
		if err := ops.CheckExtent(e.pair[2*b], e.pair[2*b+1], e.t, cached); err != nil {
			return err
		}
	}
	return nil
}

// of is a sequence's extent.
func (e *extents) of(b int) (position, count int) { return int(e.pair[2*b]), int(e.pair[2*b+1]) }

// cacheWrite copies the rows of a chunk that count. It is a few rows.
type cacheWrite struct {
	extents
	c, d, width, from int // from is where the keys or values begin in the width of qkv
}

func newCacheWrite(n *graph.Node, _ work.Target) (work.Kernel, error) {
	cache, x := work.In(n, 0).Shape, work.In(n, 1).Shape
	k := &cacheWrite{extents: extents{b: x[0], t: x[1]}, c: cache[1], d: cache[2], width: x[2]}
	k.from = n.Op.(ops.CacheWrite).From(k.width, k.d)
	return k, nil
}

func (k *cacheWrite) ScratchBytes() int64 { return 0 }

func (k *cacheWrite) Run(_ work.Pool, a *work.Args) error {
	if err := k.bind(a.In[2], k.c); err != nil {
		return err
	}
	size := k.b * k.c * k.d
	y, x := work.Floats(a.Out[0], size), work.Floats(a.In[1], k.b*k.t*k.width)
	if !work.SameMemory(a.In[0], a.Out[0]) {
		copy(y, work.Floats(a.In[0], size))
	}
	for b := range k.b {
		position, count := k.of(b)
		for i := range count {
			copy(y[(b*k.c+position+i)*k.d:][:k.d], x[(b*k.t+i)*k.width+k.from:])
		}
	}
	return nil
}

// positions counts from each sequence's position on.
type positions struct{ extents }

func newPositions(n *graph.Node, _ work.Target) (work.Kernel, error) {
	s := work.Out(n, 0).Shape
	return &positions{extents{b: s[0], t: s[1]}}, nil
}

func (k *positions) ScratchBytes() int64 { return 0 }

func (k *positions) Run(_ work.Pool, a *work.Args) error {
	if err := k.bind(a.In[0], math.MaxInt32); err != nil {
		return err
	}
	y := work.Ints(a.Out[0], k.b*k.t)
	clear(y)
	for b := range k.b {
		position, count := k.of(b)
		for i := range count {
			y[b*k.t+i] = int32(position + i)
		}
	}
	return nil
}

// lastRow copies a row of each sequence.
type lastRow struct {
	extents
	d int
}

func newLastRow(n *graph.Node, _ work.Target) (work.Kernel, error) {
	s := work.In(n, 0).Shape
	return &lastRow{extents{b: s[0], t: s[1]}, s[2]}, nil
}

func (k *lastRow) ScratchBytes() int64 { return 0 }

func (k *lastRow) Run(_ work.Pool, a *work.Args) error {
	if err := k.bind(a.In[1], math.MaxInt32); err != nil {
		return err
	}
	y, x := work.Floats(a.Out[0], k.b*k.d), work.Floats(a.In[0], k.b*k.t*k.d)
	for b := range k.b {
		_, count := k.of(b)
		copy(y[b*k.d:][:k.d], x[(b*k.t+count-1)*k.d:])
	}
	return nil
}
