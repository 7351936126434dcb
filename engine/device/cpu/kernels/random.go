package kernels

import (
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/rng"
)

var randomKernels = map[string]constructor{"dropout(f32,i32,i32)->f32": newDropout}

// dropper decides which elements survive, by their index in the global batch.
type dropper struct {
	p     float64
	scale uint32 // bits of 1/(1-P), the factor of survivors
	least uint32 // the least word>>8 of survivors
	key   rng.Key
	step  uint32
	size  uint64 // elements of a sample
	first uint64 // index of the microbatch's first element
}

func newDropper(key rng.Key, p float64) dropper {
	return dropper{
		p: p, key: key,
		scale: math.Float32bits(float32(1 / (1 - p))),
		least: uint32(math.Ceil(float64(float32(p)) * (1 << 24))),
	}
}

// bind reads the scalars step and base for samples of size elements.
func (d *dropper) bind(step, base []byte, size int) {
	d.step, d.size = uint32(scalarInt(step)), uint64(size)
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
	for len(dst) > 0 {
		words := d.key.At(i>>2, d.step)
		lane := int(i & 3)
		n := min(4-lane, len(dst))
		for j := range n {
			kept := ^uint32(int32(words[(lane+j)&3]>>8-d.least) >> 31)
			dst[j] = math.Float32frombits(d.scale & kept)
		}
		dst, i = dst[n:], i+uint64(n)
	}
}

// apply drops elements of x in place. NaN and infinities stay visible: dropped,
// they are NaN.
func (d *dropper) apply(x []float32, i uint64) {
	if d.p == 0 {
		return
	}
	var factors [256]float32
	for len(x) > 0 {
		n := min(len(factors), len(x))
		d.factors(factors[:n], i)
		for j, f := range factors[:n] {
			x[j] *= f
		}
		x, i = x[n:], i+uint64(n)
	}
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
	do(p, chunks(k.n, grain), k)
	return nil
}

func (k *dropout) Chunk(i int) {
	lo, hi := span(i, grain, k.n)
	k.tile(k.y[lo:hi], k.x[lo:hi], lo)
}

// tile drops elements of x, of which the first is number at.
func (k *dropout) tile(y, x []float32, at int) {
	copy(y, x)
	k.drop.apply(y, k.drop.first+uint64(at))
}
