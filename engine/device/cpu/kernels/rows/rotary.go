package rows

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var rotaryKernels = work.Table{
	"rotary(f32)->f32":     newRotary,
	"rotary(f32,i32)->f32": newRotary,
}

// rotary turns the heads of rows. Cosines and sines of each position, which all its heads
// and, where positions are those of the rows, all sequences share, are in scratch memory.
type rotary struct {
	vec            *vec.Funcs
	r, t, width    int // rows, of which t are a sequence
	half, heads    int // points of a head, heads that turn
	places         int // rows of the table
	turns          []uint64
	x, y, cos, sin []float32
	positions      []int32 // nil: 0, 1, … in each sequence
}

func newRotary(n *graph.Node, on work.Target) (work.Kernel, error) {
	op, s := n.Op.(ops.Rotary), work.In(n, 0).Shape
	k := &rotary{vec: on.ISA.Vec(), r: s[0] * s[1], t: s[1], width: s[2], half: op.Size / 2, heads: op.Heads, turns: op.Turns()}
	k.places = s[1]
	if len(n.In) == 2 {
		k.places = k.r
	}
	return k, nil
}

func (k *rotary) ScratchBytes() int64 { return int64(k.places) * int64(k.half) * 8 }

func (k *rotary) Run(p work.Pool, a *work.Args) error {
	k.x, k.y = work.Floats(a.In[0], k.r*k.width), work.Floats(a.Out[0], k.r*k.width)
	all := work.Floats(a.Scratch, 2*k.places*k.half)
	k.cos, k.sin = all[:k.places*k.half], all[k.places*k.half:]
	k.positions = nil
	if len(a.In) == 2 {
		k.positions = shape.View[int32](a.In[1])
	}
	work.Do(p, work.CeilDiv(k.places, work.RowGrain(16*k.half)), (*rotaryAngles)(k))
	work.Do(p, work.CeilDiv(k.r, work.RowGrain(k.width)), k)
	return nil
}

// rotaryAngles fills the table, a chunk for some of its rows.
type rotaryAngles rotary

func (k *rotaryAngles) Chunk(i int) {
	lo, hi := work.Interval(i, work.RowGrain(16*k.half), k.places)
	for r := lo; r < hi; r++ {
		position := int32(r)
		if k.positions != nil {
			position = k.positions[r]
		}
		for j, turn := range k.turns {
			sin, cos := math.Sincos(ops.Angle(turn, position))
			k.cos[r*k.half+j], k.sin[r*k.half+j] = float32(cos), float32(sin)
		}
	}
}

func (k *rotary) Chunk(i int) {
	lo, hi := work.Interval(i, work.RowGrain(k.width), k.r)
	size := 2 * k.half
	for r := lo; r < hi; r++ {
		x, y, place := k.x[r*k.width:][:k.width], k.y[r*k.width:][:k.width], r%k.places
		cos, sin := k.cos[place*k.half:][:k.half], k.sin[place*k.half:][:k.half]
		for h := range k.heads {
			k.vec.Rotate(y[h*size:][:size], x[h*size:][:size], cos, sin)
		}
		copy(y[k.heads*size:], x[k.heads*size:])
	}
}
