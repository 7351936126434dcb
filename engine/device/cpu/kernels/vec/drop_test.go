package vec

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/rng"
)

// TestDropFactors wants what the random numbers of package rng say, for any
// place and count, and past the end of the lower half of the counter.
func TestDropFactors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Drop{
			Key:  rng.NewKey(rapid.Uint64().Draw(t, "seed"), 1),
			Step: rapid.Uint32().Draw(t, "step"), Least: rapid.Uint32Range(0, 1<<24).Draw(t, "least"), Factor: math.Float32bits(1.25),
		}
		n := rapid.IntRange(0, 300).Draw(t, "n")
		block := rapid.SampledFrom([]uint64{0, 5, 1<<32 - 20, 7<<32 + 3, 1<<40 - 1}).Draw(t, "block")
		for level, f := range tables() {
			got := make([]float32, n)
			for i := range got {
				got[i] = -1
			}
			f.DropFactors(got, block, &d)
			for i, v := range got {
				want := float32(0)
				switch words := d.Key.At(block+uint64(i/4), d.Step); {
				case i >= n&^3:
					want = -1 // not part of a whole block
				case words[i%4]>>8 >= d.Least:
					want = 1.25
				}
				if v != want {
					t.Fatalf("%s: element %d of %d from block %d is %v, want %v", level, i, n, block, v, want)
				}
			}
		}
	})
}
