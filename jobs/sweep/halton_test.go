package sweep

import (
	"math"
	"testing"

	"github.com/berth-ml/berth/configs"
)

// TestHaltonLeavesNoGaps: along the j-th dimension, the first b^k points are one in each of b^k equal parts,
// where b is the j-th prime.
func TestHaltonLeavesNoGaps(t *testing.T) {
	s := &configs.Sweep{Vary: make([]configs.Dimension, 4), Trials: []int{10}, Seed: 3}
	point := halton(s)
	for j, prime := range []int{2, 3, 5, 7} {
		for parts := prime; parts <= 400; parts *= prime {
			seen := make([]bool, parts)
			for k := range parts {
				seen[int(math.Floor(point(k)[j]*float64(parts)))] = true
			}
			for part, there := range seen {
				if !there {
					t.Errorf("dimension %d: none of the first %d points is in part %d", j, parts, part)
				}
			}
		}
	}
}

// TestHaltonSeeds: seeds give other points.
func TestHaltonSeeds(t *testing.T) {
	s := &configs.Sweep{Vary: make([]configs.Dimension, 2), Trials: []int{1}}
	a := halton(s)(0)[1]
	s.Seed = 1
	if b := halton(s)(0)[1]; a == b {
		t.Errorf("seeds 0 and 1 both begin at %v", a)
	}
}
