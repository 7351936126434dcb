// Package rng gives random numbers as a function of their purpose, not of earlier
// draws: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2,
// 3", SC11). There is no state to save, and the numbers are the same however work
// is split over threads, devices or time.
//
// The types to know are [Key] and [Permutation].
package rng

import "math/bits"

// Key selects one of 2^64 independent streams.
type Key struct{ Lo, Hi uint32 }

// NewKey is the stream of a seed for one purpose.
func NewKey(seed, purpose uint64) Key {
	x := mix(seed ^ mix(purpose+0x9e3779b97f4a7c15))
	return Key{uint32(x), uint32(x >> 32)}
}

// Named is the stream of a seed for a purpose given by name.
func Named(seed uint64, purpose string) Key {
	h := uint64(0xcbf29ce484222325) // FNV-1a
	for i := 0; i < len(purpose); i++ {
		h = (h ^ uint64(purpose[i])) * 0x100000001b3
	}
	return NewKey(seed, h)
}

// mix is SplitMix64's finaliser.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Block is the four words at a counter.
func (k Key) Block(c0, c1, c2, c3 uint32) [4]uint32 {
	const m0, m1, w0, w1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
	k0, k1 := k.Lo, k.Hi
	for range 10 {
		h0, l0 := bits.Mul32(m0, c0)
		h1, l1 := bits.Mul32(m1, c2)
		c0, c1, c2, c3 = h1^c1^k0, l1, h0^c3^k1, l0
		k0 += w0
		k1 += w1
	}
	return [4]uint32{c0, c1, c2, c3}
}

// At is the four words for elements 4i..4i+3 of a tensor at a step.
func (k Key) At(i uint64, step uint32) [4]uint32 {
	return k.Block(uint32(i), uint32(i>>32), step, 0)
}

// Float32 maps a word to [0,1) with 24 bits.
func Float32(u uint32) float32 { return float32(u>>8) * (1.0 / (1 << 24)) }

// Float64 maps two words to [0,1) with 53 bits.
func Float64(a, b uint32) float64 {
	return float64((uint64(a)<<32|uint64(b))>>11) * (1.0 / (1 << 53))
}
