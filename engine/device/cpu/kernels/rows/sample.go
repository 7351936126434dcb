package rows

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/rng"
)

var sampleKernels = work.Table{"sample(f32,i32,f32,i32)->i32": newSample}

// sample draws a token for each row of logits, one row after the other. All is in
// float64 and plain Go: equal logits draw equal tokens with every instruction set.
//
// Where top-k or top-p leave tokens out, the ids are made a heap, and the best ones are
// taken off it until enough are: few, mostly.
type sample struct {
	b       int
	row     int       // logits of a row
	v       int       // the ones of these that count
	logits  []float32 // of the row under way
	weights []float64 // by id: e^((logit-best)/temperature)
	heap    []int32   // ids, the best first
}

func newSample(n *graph.Node, _ work.Target) (work.Kernel, error) {
	s := work.In(n, 0).Shape
	row := s[len(s)-1]
	return &sample{b: s[0], row: row, v: n.Op.(ops.Sample).Count(row)}, nil
}

func (k *sample) ScratchBytes() int64 { return int64(k.v) * 12 }

func (k *sample) Run(_ work.Pool, a *work.Args) error {
	all, y := work.Floats(a.In[0], k.b*k.row), work.Ints(a.Out[0], k.b)
	at, shapings, choices := work.Ints(a.In[1], k.b), work.Floats(a.In[2], 2*k.b), work.Ints(a.In[3], 3*k.b)
	k.weights, k.heap = work.Doubles(a.Scratch, k.v), work.Ints(a.Scratch[8*k.v:], k.v)
	for b := range k.b {
		k.logits = all[b*k.row:][:k.v]
		shaping, choice := shapings[2*b:][:2], choices[3*b:][:3]
		best := k.best()
		if y[b] = int32(best); best < 0 || shaping[0] == 0 {
			continue
		}
		total := k.weigh(best, float64(shaping[0]))
		last, kept := k.last(int(choice[0]), float64(shaping[1]), total)
		key := rng.Key{Lo: uint32(choice[1]), Hi: uint32(choice[2])}
		w := key.At(0, uint32(at[b]))
		y[b] = int32(k.draw(last, rng.Float64(w[0], w[1])*kept))
	}
	return nil
}

// best is the first id with the largest logit, or -1-id of the first for which none can be
// drawn.
func (k *sample) best() int {
	best := 0
	for id, x := range k.logits {
		if x != x || x > math.MaxFloat32 {
			return -1 - id
		}
		if x > k.logits[best] {
			best = id
		}
	}
	if k.logits[best] < -math.MaxFloat32 {
		return -1
	}
	return best
}

// weigh fills in the weights, and returns their sum.
func (k *sample) weigh(best int, temperature float64) (total float64) {
	most := float64(k.logits[best])
	for id, x := range k.logits {
		k.weights[id] = vec.Exp64((float64(x) - most) / temperature)
		total += k.weights[id]
	}
	return total
}

// last is the lowest-ranked token that top-k and top-p leave, and the sum of the weights
// of all that are left; -1 where all are.
func (k *sample) last(topK int, topP, total float64) (last int, kept float64) {
	limited := topK > 0 && topK < k.v
	if !limited && topP >= 1 {
		return -1, total
	}
	k.heapify()
	most := k.v
	if limited {
		most, total = topK, 0
		for i := range topK { // a popped id is behind the heap's end
			total += k.weights[k.pop(k.v-i)]
		}
		if topP >= 1 {
			return int(k.heap[k.v-topK]), total
		}
	}
	for i := range most {
		if !limited {
			k.pop(k.v - i)
		}
		last = int(k.heap[k.v-1-i])
		if kept += k.weights[last]; kept >= topP*total {
			break
		}
	}
	return last, kept
}

// draw is the first token with which the sum of the weights of those that are left, in
// order of id, is above u.
func (k *sample) draw(last int, u float64) (id int) {
	sum := 0.0
	for i, w := range k.weights {
		if last >= 0 && i != last && !k.before(int32(i), int32(last)) {
			continue
		}
		id = i
		if sum += w; sum > u {
			break
		}
	}
	return id
}

// before reports whether token a ranks before token b.
func (k *sample) before(a, b int32) bool {
	x, y := k.logits[a], k.logits[b]
	return x > y || x == y && a < b
}

// heapify makes a heap of all ids: none ranks before the one at half its index.
func (k *sample) heapify() {
	for i := range k.heap {
		k.heap[i] = int32(i)
	}
	for i := k.v/2 - 1; i >= 0; i-- {
		k.sink(i, k.v)
	}
}

// pop takes the best of the heap's first n ids, and puts it behind the others.
func (k *sample) pop(n int) int32 {
	best := k.heap[0]
	k.heap[0], k.heap[n-1] = k.heap[n-1], best
	k.sink(0, n-1)
	return best
}

// sink moves the id at i down until the heap of n ids is one again.
func (k *sample) sink(i, n int) {
	for {
		child := 2*i + 1
		if child >= n {
			return
		}
		if child+1 < n && k.before(k.heap[child+1], k.heap[child]) {
			child++
		}
		if !k.before(k.heap[child], k.heap[i]) {
			return
		}
		k.heap[i], k.heap[child] = k.heap[child], k.heap[i]
		i = child
	}
}
