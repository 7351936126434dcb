package rng

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The known answers of philox4x32-10 that the paper's authors publish with
// Random123 (kat_vectors).
func TestPhiloxKnownAnswers(t *testing.T) {
	const all = 0xffffffff
	cases := []struct {
		ctr  [4]uint32
		key  Key
		want [4]uint32
	}{
		{[4]uint32{}, Key{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{all, all, all, all}, Key{all, all}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, Key{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	}
	for _, c := range cases {
		if got := c.key.Block(c.ctr[0], c.ctr[1], c.ctr[2], c.ctr[3]); got != c.want {
			t.Errorf("counter %08x key %08x: got %08x, want %08x", c.ctr, c.key, got, c.want)
		}
	}
}

func TestAtIsACounter(t *testing.T) {
	k := Key{1, 2}
	if k.At(5<<32|7, 3) != k.Block(7, 5, 3, 0) {
		t.Error("At does not put the index and step into the counter")
	}
}

func TestKeysDiffer(t *testing.T) {
	seen := map[Key]string{}
	for seed := range uint64(50) {
		for _, name := range []string{"shuffle", "split", "init", "dropout"} {
			k := Named(seed, name)
			if other, dup := seen[k]; dup {
				t.Fatalf("seed %d %q has the key of %s", seed, name, other)
			}
			seen[k] = name
		}
	}
}

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

func TestFillsAreElementwise(t *testing.T) {
	fills := map[string]func([]float32){
		"uniform": func(d []float32) { Uniform(d, Key{1, 2}, -0.5, 0.5) },
		"normal":  func(d []float32) { Normal(d, Key{1, 2}, 0.02) },
	}
	for name, fill := range fills {
		long := make([]float32, 103)
		fill(long)
		for n := range 20 {
			short := make([]float32, n)
			fill(short)
			for i := range short {
				if short[i] != long[i] {
					t.Fatalf("%s: element %d depends on the length", name, i)
				}
			}
		}
	}
}

func TestMoments(t *testing.T) {
	const n = 200000
	x := make([]float32, n)
	check := func(name string, mean, std, max float64) {
		var s, ss, top float64
		for _, v := range x {
			s += float64(v)
			ss += float64(v) * float64(v)
			top = math.Max(top, math.Abs(float64(v)))
		}
		m := s / n
		if sd := math.Sqrt(ss/n - m*m); math.Abs(m-mean) > 0.01*std || math.Abs(sd-std) > 0.01*std || top > max {
			t.Errorf("%s: mean %.4f, deviation %.4f, largest %.2f; want %.4f, %.4f, at most %.2f", name, m, sd, top, mean, std, max)
		}
	}
	Uniform(x, NewKey(1, 1), 1, 3)
	check("uniform", 2, 2/math.Sqrt(12), 3)
	Normal(x, NewKey(1, 2), 2)
	check("normal", 0, 2, 14)
}

func BenchmarkPermutationAt(b *testing.B) {
	p := NewPermutation(60000, Key{1, 2})
	for i := range b.N {
		p.At(i % 60000)
	}
}
