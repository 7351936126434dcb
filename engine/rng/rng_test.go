package rng

import (
	"testing"
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

func BenchmarkPermutationAt(b *testing.B) {
	p := NewPermutation(60000, Key{1, 2})
	for i := range b.N {
		p.At(i % 60000)
	}
}
