package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// rounder is a way that can round its factors to bfloat16 while it copies them.
type rounder interface {
	// rounds reports whether it does.
	rounds() bool
}

// convRounded computes with factors of bfloat16 by a way of float32: it reads rounded copies
// of them. The product of two bfloat16 is exact in float32.
type convRounded struct {
	convolver
	isa  isa.ISA
	lens [2]int // elements of the factors
	from [2][]float32
	to   [2][]float32
}

// rounded is a way of s itself, whose factors have so many elements, where they need not be rounded or it does that.
func rounded(s *convShape, way convolver, lenA, lenB int) convolver {
	if r, ok := way.(rounder); !s.bf16 || ok && r.rounds() {
		return way
	}
	return &convRounded{convolver: way, isa: s.on.ISA, lens: [2]int{lenA, lenB}}
}

func (k *convRounded) scratch() int { return k.copies() + k.convolver.scratch() }

// copies is the elements of the copies, each of which begins at a cache line.
func (k *convRounded) copies() int { return k.copy(0) + k.copy(1) }

// copy is the elements of that of a factor.
func (k *convRounded) copy(i int) int { return work.CeilDiv(k.lens[i], line) * line }

func (k *convRounded) run(p work.Pool, a, b, out, scratch []float32, then *work.Epilogue) {
	k.from = [2][]float32{a, b}
	k.to = [2][]float32{scratch[:k.lens[0]], scratch[k.copy(0):][:k.lens[1]]}
	work.Do(p, k.chunks(0)+k.chunks(1), k)
	k.convolver.run(p, k.to[0], k.to[1], out, scratch[k.copies():], then)
}

// chunks is the chunks in which a factor is rounded.
func (k *convRounded) chunks(i int) int { return work.CeilDiv(k.lens[i], work.Grain) }

// Chunk rounds some of a factor.
func (k *convRounded) Chunk(i int) {
	of := 0
	if first := k.chunks(0); i >= first {
		of, i = 1, i-first
	}
	lo, hi := work.Interval(i, work.Grain, k.lens[of])
	round(k.isa, k.to[of][lo:hi], k.from[of][lo:hi])
}
