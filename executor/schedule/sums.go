package schedule

import "math/bits"

// Split is where the sum over microbatches lo to hi-1 is the sum of two: at lo
// plus the largest power of two below their number, which is at least 2.
func Split(lo, hi int) int { return lo + 1<<(bits.Len(uint(hi-lo-1))-1) }

// SumOf is the range of microbatches whose sum is split at a microbatch, in a step
// of so many. Each microbatch but the first splits one.
func SumOf(split, microbatches int) (lo, hi int) {
	hi = microbatches
	for {
		switch at := Split(lo, hi); {
		case at == split:
			return lo, hi
		case split < at:
			hi = at
		default:
			lo = at
		}
	}
}
