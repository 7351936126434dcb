package rng

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestPermutationIsABijection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3000).Draw(t, "n")
		key := Key{rapid.Uint32().Draw(t, "lo"), rapid.Uint32().Draw(t, "hi")}
		p := NewPermutation(n, key)
		seen := make([]bool, n)
		for i := range n {
			j := p.At(i)
			if j < 0 || j >= n || seen[j] {
				t.Fatalf("At(%d) = %d of %d is out of range or repeated", i, j, n)
			}
			seen[j] = true
		}
	})
}

func TestPermutationOfHugeRange(t *testing.T) {
	const n = math.MaxInt
	p := NewPermutation(n, Key{3, 4})
	if p.At(0) == p.At(1) || p.At(n-1) == p.At(0) {
		t.Error("collision in a permutation of MaxInt elements")
	}
}

// Each of the 24 orders of four elements must come up about equally often:
// chi-squared with 23 degrees of freedom, 49.7 at one in a thousand.
func TestPermutationIsUniform(t *testing.T) {
	const draws = 24 * 400
	count := map[[4]int]int{}
	for i := range draws {
		p := NewPermutation(4, NewKey(9, uint64(i)))
		count[[4]int{p.At(0), p.At(1), p.At(2), p.At(3)}]++
	}
	chi := 0.0
	for _, c := range count {
		chi += (float64(c) - 400) * (float64(c) - 400) / 400
	}
	chi += float64(24-len(count)) * 400
	if chi > 49.7 {
		t.Errorf("chi-squared %.1f over %d orders", chi, len(count))
	}
}

// A shuffled epoch must not keep neighbours together: the correlation between
// a position and its place, and between successive places, is near zero.
func TestPermutationMixes(t *testing.T) {
	const n = 4001
	p := NewPermutation(n, NewKey(1, 2))
	var place, next float64
	for i := range n {
		x := float64(p.At(i)) - (n-1)/2.0
		place += (float64(i) - (n-1)/2.0) * x
		next += x * (float64(p.At((i+1)%n)) - (n-1)/2.0)
	}
	variance := float64(n) * (n*n - 1) / 12
	if r := place / variance; math.Abs(r) > 0.06 {
		t.Errorf("correlation of position and place %.3f", r)
	}
	if r := next / variance; math.Abs(r) > 0.06 {
		t.Errorf("correlation of successive places %.3f", r)
	}
}

func TestPermutationAllocatesNothing(t *testing.T) {
	p := NewPermutation(1797, Key{5, 6})
	if a := testing.AllocsPerRun(100, func() { p.At(1000) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}
