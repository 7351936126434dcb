package dropout

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/rng"
)

// Dropper decides which elements dropout keeps, by their index in the global batch.
type Dropper struct {
	p      float64
	rule   vec.Drop
	blocks func(dst []float32, block uint64, d *vec.Drop)
	mul    func(y, a, b []float32)
	size   uint64 // elements of a sample
	first  uint64 // index of the microbatch's first element
}

// NewDropper drops elements with probability p, by the random numbers of key.
func NewDropper(set isa.ISA, key rng.Key, p float64) Dropper {
	return Dropper{p: p, blocks: set.Vec().DropFactors, mul: set.Vec().Mul, rule: vec.Drop{
		Key:    key,
		Factor: math.Float32bits(float32(1 / (1 - p))),
		Least:  uint32(math.Ceil(float64(float32(p)) * (1 << 24))),
	}}
}

// Bind reads the scalars step and base for samples of size elements.
func (d *Dropper) Bind(step, base []byte, size int) {
	d.rule.Step, d.size = uint32(work.ScalarInt(step)), uint64(size)
	d.first = uint64(int64(work.ScalarInt(base)) * int64(size))
}

// Factors writes the factor of elements i, i+1, ...: 0 or 1/(1-p). It decides as
// [ops.Kept] does, but on the word's upper 24 bits as an integer, and without a branch,
// which random words would mispredict.
func (d *Dropper) Factors(dst []float32, i uint64) {
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

// oneBlock writes one block's factors from a lane on, as many as dst has room for, and
// returns their number.
func (d *Dropper) oneBlock(dst []float32, block uint64, lane int) int {
	words := d.rule.Key.At(block, d.rule.Step)
	n := min(len(dst), 4-lane)
	for j := range n {
		dst[j] = d.rule.Of(words[lane+j])
	}
	return n
}

// Apply drops elements of x in place. NaN and infinities stay visible: dropped, they
// are NaN.
func (d *Dropper) Apply(x []float32, i uint64) {
	if d.p == 0 {
		return
	}
	r := work.TakeRegisters()
	for len(x) > 0 {
		n := min(len(r.All), len(x))
		d.Factors(r.All[:n], i)
		d.mul(x[:n], x[:n], r.All[:n])
		x, i = x[n:], i+uint64(n)
	}
	r.GiveBack()
}

// Index is the random index of element at of a sample of the microbatch.
func (d *Dropper) Index(sample, at int) uint64 {
	return d.first + uint64(sample)*d.size + uint64(at)
}

// Drops reports whether any element can be dropped.
func (d *Dropper) Drops() bool { return d.p > 0 }
