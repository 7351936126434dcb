package rows

import (
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var generateKernels = work.Table{
	"cache_write(f32,f32,i32)->f32": newCacheWrite,
	"positions(i32)->i32":           newPositions,
	"last_row(f32,i32)->f32":        newLastRow,

	"repetition_penalty(f32,i32,i32,i32,f32)->f32": newRepetitionPenalty,
	"seen_write(i32,i32,i32)->i32":                 newSeenWrite,
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

// repetitionPenalty goes over the logits once, if there is a penalty.
type repetitionPenalty struct {
	extents
	v int // logits of a row
}

func newRepetitionPenalty(n *graph.Node, _ work.Target) (work.Kernel, error) {
	seen, tokens := work.In(n, 1).Shape, work.In(n, 2).Shape
	return &repetitionPenalty{extents{b: tokens[0], t: tokens[1]}, seen[1]}, nil
}

func (k *repetitionPenalty) ScratchBytes() int64 { return 0 }

func (k *repetitionPenalty) Run(_ work.Pool, a *work.Args) error {
	if err := k.bind(a.In[3], math.MaxInt32); err != nil {
		return err
	}
	logits, seen := work.Floats(a.Out[0], k.b*k.v), work.Ints(a.In[1], k.b*k.v)
	tokens, penalty := work.Ints(a.In[2], k.b*k.t), work.Scalar(a.In[4])
	if !work.SameMemory(a.In[0], a.Out[0]) {
		copy(logits, work.Floats(a.In[0], k.b*k.v))
	}
	if penalty == 1 {
		return nil
	}
	for b := range k.b {
		position, count := k.of(b)
		x, before, chunk := logits[b*k.v:][:k.v], seen[b*k.v:][:k.v], tokens[b*k.t:][:count]
		if position == 0 {
			before = nil
		}
		for id, was := range before {
			if was != 0 {
				x[id] = penalized(x[id], penalty)
			}
		}
		for i, id := range chunk {
			if id < 0 || int(id) >= k.v || before != nil && before[id] != 0 || slices.Contains(chunk[:i], id) {
				continue
			}
			x[id] = penalized(x[id], penalty)
		}
	}
	return nil
}

// penalized lowers a logit.
func penalized(x, penalty float32) float32 {
	if x > 0 {
		return x / penalty
	}
	return x * penalty
}

// seenWrite notes tokens.
type seenWrite struct {
	extents
	v int // tokens that there are
}

func newSeenWrite(n *graph.Node, _ work.Target) (work.Kernel, error) {
	seen, tokens := work.In(n, 0).Shape, work.In(n, 1).Shape
	return &seenWrite{extents{b: tokens[0], t: tokens[1]}, seen[1]}, nil
}

func (k *seenWrite) ScratchBytes() int64 { return 0 }

func (k *seenWrite) Run(_ work.Pool, a *work.Args) error {
	if err := k.bind(a.In[2], math.MaxInt32); err != nil {
		return err
	}
	all, tokens := work.Ints(a.Out[0], k.b*k.v), work.Ints(a.In[1], k.b*k.t)
	if !work.SameMemory(a.In[0], a.Out[0]) {
		copy(all, work.Ints(a.In[0], k.b*k.v))
	}
	for b := range k.b {
		position, count := k.of(b)
		seen := all[b*k.v:][:k.v]
		if position == 0 {
			clear(seen)
		}
		for _, id := range tokens[b*k.t:][:count] {
			if id >= 0 && int(id) < k.v {
				seen[id] = 1
			}
		}
	}
	return nil
}
