package rng

import (
	"fmt"
	"math/bits"
)

// rounds is the number of times that one half of an index is mixed into the other.
// Four make a Feistel network pseudorandom in theory; eight leave no pattern in
// domains of a few bits either.
const rounds = 8

// Permutation is a seeded bijection of [0, n). It holds no table: At costs the
// same for any n, and any position can be asked for at any time. It is a plain
// value; copies are equal and safe for concurrent use.
type Permutation struct {
	key         Key
	n           int
	loBits      uint // bits of the low half
	loMask, hiM uint64
}

// NewPermutation is the permutation of [0, n) that key selects. n must not be
// negative.
func NewPermutation(n int, key Key) Permutation {
	if n < 0 {
		panic(fmt.Sprintf("BUG: permutation of %d elements", n))
	}
	width := uint(0)
	if n > 1 {
		width = uint(bits.Len64(uint64(n - 1)))
	}
	lo := (width + 1) / 2
	return Permutation{key: key, n: n, loBits: lo, loMask: 1<<lo - 1, hiM: 1<<(width-lo) - 1}
}

// Len is the number of elements.
func (p Permutation) Len() int { return p.n }

// At is the image of i, which must be in [0, Len()).
//
// The network permutes the smallest power of two that holds n, less than 2n;
// walking its cycle until it comes back below n makes a bijection of [0, n),
// in fewer than two passes on average.
func (p Permutation) At(i int) int {
	if i < 0 || i >= p.n {
		panic(fmt.Sprintf("BUG: index %d of a permutation of %d elements", i, p.n))
	}
	x := uint64(i)
	for {
		x = p.pass(x)
		if x < uint64(p.n) {
			return int(x)
		}
	}
}

// pass runs the Feistel network once. The halves differ by at most one bit;
// each round changes one of them by a function of the other, so each can be
// undone.
func (p Permutation) pass(x uint64) uint64 {
	lo, hi := x&p.loMask, x>>p.loBits
	for r := uint32(0); r < rounds; r += 2 {
		lo ^= p.mixed(hi, r) & p.loMask
		hi ^= p.mixed(lo, r+1) & p.hiM
	}
	return hi<<p.loBits | lo
}

// mixed is the round function: one word of Philox. A half has at most 32 bits.
func (p Permutation) mixed(half uint64, round uint32) uint64 {
	const domain = 0x5045524d // "PERM": apart from the counters of At
	return uint64(p.key.Block(uint32(half), round, 0, domain)[0])
}
