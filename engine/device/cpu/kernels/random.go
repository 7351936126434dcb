package kernels

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/rng"
)

var randomKernels = map[string]constructor{"dropout(f32,i32,i32)->f32": newDropout}

// dropper decides which elements survive, by their index in the global batch.
type dropper struct {
	p      float64
	rule   vec.Drop
	blocks func(dst []float32, block uint64, d *vec.Drop)
	mul    pairFunc
	size   uint64 // elements of a sample
	first  uint64 // index of the microbatch's first element
}

func newDropper(key rng.Key, p float64) dropper {
	return dropper{p: p, blocks: Using().vec().DropFactors, mul: Using().vec().Mul, rule: vec.Drop{
		Key:    key,
		Factor: math.Float32bits(float32(1 / (1 - p))),
		Least:  uint32(math.Ceil(float64(float32(p)) * (1 << 24))),
	}}
}

// bind reads the scalars step and base for samples of size elements.
func (d *dropper) bind(step, base []byte, size int) {
	d.rule.Step, d.size = uint32(scalarInt(step)), uint64(size)
	d.first = uint64(int64(scalarInt(base)) * int64(size))
}

// factors writes the factor of elements i, i+1, ...: 0 or 1/(1-P). It decides
// as [ops.Kept] does, but on the word's upper 24 bits as an integer and without
// a branch, which random words would mispredict.
func (d *dropper) factors(dst []float32, i uint64) {
	if d.p == 0 {
		for j := range dst {
			dst[j] = 1
		}
		return
	}
	if lane := i & 3; lane > 0 {
		n := d.oneBlock(dst, i>>2, int(lane))
		dst, i = dst[n:], i+uint64(n)
	}
	d.blocks(dst, i>>2, &d.rule)
	if rest := len(dst) &^ 3; rest < len(dst) {
		d.oneBlock(dst[rest:], (i+uint64(rest))>>2, 0)
	}
}

// part writes what dst has room for of one block's factors from a lane on, and
// returns how many that are.
func (d *dropper) oneBlock(dst []float32, block uint64, lane int) int {
	words := d.rule.Key.At(block, d.rule.Step)
	n := min(len(dst), 4-lane)
	for j := range n {
		dst[j] = d.rule.Of(words[lane+j])
	}
	return n
}

// apply drops elements of x in place. NaN and infinities stay visible: dropped,
// they are NaN.
func (d *dropper) apply(x []float32, i uint64) {
	if d.p == 0 {
		return
	}
	r := takeRegisters()
	for len(x) > 0 {
		n := min(len(r.all), len(x))
		d.factors(r.all[:n], i)
		d.mul(x[:n], x[:n], r.all[:n])
		x, i = x[n:], i+uint64(n)
	}
	r.giveBack()
}

// dropout copies and drops.
type dropout struct {
	n, size int
	drop    dropper
	y, x    []float32
}

func newDropout(n *graph.Node) (Kernel, error) {
	op, s := n.Op.(ops.Dropout), in(n, 0).Shape
	return &dropout{n: s.Elems(), size: s[1:].Elems(), drop: newDropper(op.Key(), op.P)}, nil
}

func (k *dropout) ScratchBytes() int64 { return 0 }

func (k *dropout) Run(p Pool, a *Args) error {
	k.y, k.x = floats(a.Out[0], k.n), floats(a.In[0], k.n)
	k.drop.bind(a.In[1], a.In[2], k.size)
	do(p, ceilDiv(k.n, grain), k)
	return nil
}

func (k *dropout) Chunk(i int) {
	lo, hi := interval(i, grain, k.n)
	k.dropFrom(k.y[lo:hi], k.x[lo:hi], lo)
}

// tile drops elements of x, of which the first is number at.
func (k *dropout) dropFrom(y, x []float32, at int) {
	copy(y, x)
	k.drop.apply(y, k.drop.first+uint64(at))
}
