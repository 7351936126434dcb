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
	"state_write(f32,f32,i32)->f32": newStateWrite,
	"positions(i32)->i32":           newPositions,
	"last_row(f32,i32)->f32":        newLastRow,

	"repetition_penalty(f32,i32,i32,i32,f32)->f32": newRepetitionPenalty,
	"seen_write(i32,i32,i32)->i32":                 newSeenWrite,
}

// extents are those of a chunk of t rows for each of b sequences.
type extents struct {
	b, t  int
	words []int32 // see ops.ExtentOf
}

// anywhere is the number of positions and of places where there is no cache.
const anywhere = math.MaxInt32

// bind reads the extents, for caches of so many positions and places.
func (e *extents) bind(mem []byte, positions, places int) error {
	e.words = work.Ints(mem, 3*e.b)
	for b := range e.b {
		if err := e.of(b).Check(e.t, positions, places); err != nil {
			return err
		}
	}
	return nil
}

// of is a sequence's extent.
func (e *extents) of(b int) ops.Extent { return ops.ExtentOf(e.words, b) }

// cacheWrite copies the rows of a chunk that count. It is a few rows.
type cacheWrite struct {
	extents
	places, c, d, width, from int // from is where the keys or values begin in the width of qkv
	bf16                      bool
}

func newCacheWrite(n *graph.Node, _ work.Target) (work.Kernel, error) {
	cache, x := work.In(n, 0).Shape, work.In(n, 1).Shape
	k := &cacheWrite{extents: extents{b: x[0], t: x[1]}, places: cache[0], c: cache[1], d: cache[2], width: x[2]}
	op := n.Op.(ops.CacheWrite)
	k.from, k.bf16 = op.From(k.width, k.d), op.BF16
	return k, nil
}

func (k *cacheWrite) ScratchBytes() int64 { return 0 }

func (k *cacheWrite) Run(_ work.Pool, a *work.Args) error {
	if err := k.bind(a.In[2], k.c, k.places); err != nil {
		return err
	}
	size := k.places * k.c * k.d
	y, x := work.Floats(a.Out[0], size), work.Floats(a.In[1], k.b*k.t*k.width)
	if !work.SameMemory(a.In[0], a.Out[0]) {
		copy(y, work.Floats(a.In[0], size))
	}
	for b := range k.b {
		at := k.of(b)
		for i := range at.Count {
			row := y[(at.Place*k.c+at.Position+i)*k.d:][:k.d]
			copy(row, x[(b*k.t+i)*k.width+k.from:])
			for j, v := range row {
				if !k.bf16 {
					break
				}
				row[j] = ops.RoundBF16(v)
			}
		}
	}
	return nil
}

// stateWrite copies a row of each sequence.
type stateWrite struct {
	extents
	places, d int
}

func newStateWrite(n *graph.Node, _ work.Target) (work.Kernel, error) {
	x := work.In(n, 1).Shape
	return &stateWrite{extents{b: x[0], t: x[1]}, work.In(n, 0).Shape[0], x[2]}, nil
}

func (k *stateWrite) ScratchBytes() int64 { return 0 }

func (k *stateWrite) Run(_ work.Pool, a *work.Args) error {
	if err := k.bind(a.In[2], anywhere, k.places); err != nil {
		return err
	}
	y, x := work.Floats(a.Out[0], k.places*k.d), work.Floats(a.In[1], k.b*k.t*k.d)
	if !work.SameMemory(a.In[0], a.Out[0]) {
		copy(y, work.Floats(a.In[0], k.places*k.d))
	}
	for b := range k.b {
		at := k.of(b)
		copy(y[at.Place*k.d:][:k.d], x[(b*k.t+at.Count-1)*k.d:])
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
	if err := k.bind(a.In[0], anywhere, anywhere); err != nil {
		return err
	}
	y := work.Ints(a.Out[0], k.b*k.t)
	clear(y)
	for b := range k.b {
		at := k.of(b)
		for i := range at.Count {
			y[b*k.t+i] = int32(at.Position + i)
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
	if err := k.bind(a.In[1], anywhere, anywhere); err != nil {
		return err
	}
	y, x := work.Floats(a.Out[0], k.b*k.d), work.Floats(a.In[0], k.b*k.t*k.d)
	for b := range k.b {
		copy(y[b*k.d:][:k.d], x[(b*k.t+k.of(b).Count-1)*k.d:])
	}
	return nil
}

// repetitionPenalty goes over the logits of a sequence once, if it has a penalty.
type repetitionPenalty struct {
	extents
	places, v int // v is the logits of a row
}

func newRepetitionPenalty(n *graph.Node, _ work.Target) (work.Kernel, error) {
	seen, tokens := work.In(n, 1).Shape, work.In(n, 2).Shape
	return &repetitionPenalty{extents{b: tokens[0], t: tokens[1]}, seen[0], seen[1]}, nil
}

func (k *repetitionPenalty) ScratchBytes() int64 { return 0 }

func (k *repetitionPenalty) Run(_ work.Pool, a *work.Args) error {
	if err := k.bind(a.In[3], anywhere, k.places); err != nil {
		return err
	}
	logits, seen := work.Floats(a.Out[0], k.b*k.v), work.Ints(a.In[1], k.places*k.v)
	tokens, penalties := work.Ints(a.In[2], k.b*k.t), work.Floats(a.In[4], k.b)
	if !work.SameMemory(a.In[0], a.Out[0]) {
		copy(logits, work.Floats(a.In[0], k.b*k.v))
	}
	for b, penalty := range penalties {
		if penalty == 1 {
			continue
		}
		at := k.of(b)
		before := seen[at.Place*k.v:][:k.v]
		if at.Position == 0 {
			before = nil
		}
		penalize(logits[b*k.v:][:k.v], before, tokens[b*k.t:][:at.Count], penalty)
	}
	return nil
}

// penalize lowers the logits x of tokens that were before, and of those of a chunk.
func penalize(x []float32, before, chunk []int32, penalty float32) {
	for id, was := range before {
		if was != 0 {
			x[id] = penalized(x[id], penalty)
		}
	}
	for i, id := range chunk {
		if id < 0 || int(id) >= len(x) || before != nil && before[id] != 0 || slices.Contains(chunk[:i], id) {
			continue
		}
		x[id] = penalized(x[id], penalty)
	}
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
	places, v int // v is the tokens that there are
}

func newSeenWrite(n *graph.Node, _ work.Target) (work.Kernel, error) {
	seen, tokens := work.In(n, 0).Shape, work.In(n, 1).Shape
	return &seenWrite{extents{b: tokens[0], t: tokens[1]}, seen[0], seen[1]}, nil
}

func (k *seenWrite) ScratchBytes() int64 { return 0 }

func (k *seenWrite) Run(_ work.Pool, a *work.Args) error {
	if err := k.bind(a.In[2], anywhere, k.places); err != nil {
		return err
	}
	all, tokens := work.Ints(a.Out[0], k.places*k.v), work.Ints(a.In[1], k.b*k.t)
	if !work.SameMemory(a.In[0], a.Out[0]) {
		copy(all, work.Ints(a.In[0], k.places*k.v))
	}
	for b := range k.b {
		at := k.of(b)
		seen := all[at.Place*k.v:][:k.v]
		if at.Position == 0 {
			clear(seen)
		}
		for _, id := range tokens[b*k.t:][:at.Count] {
			if id >= 0 && int(id) < k.v {
				seen[id] = 1
			}
		}
	}
	return nil
}
