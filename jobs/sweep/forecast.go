package sweep

import (
	"slices"

	"github.com/berth-ml/berth/configs"
)

// Rungs gives the steps of a trial's rungs, the last of which is its end. steps is the length of the whole trial; the others are
// rounded up to multiples of boundary, at which there are values. Several can be the same step in a
// short trial.
func Rungs(s *configs.Sweep, steps, boundary int) []int {
	var rungs []int
	for range rungSizes(s, 1) {
		rungs = append(rungs, steps)
	}
	for i, share := len(rungs)-2, 3*boundary; i >= 0; i, share = i-1, 3*share {
		rungs[i] = min(steps, (steps+share-1)/share*boundary)
	}
	return rungs
}

// Length is the length of a trial.
type Length struct {
	Steps    int // of the whole trial
	Boundary int // steps between its boundaries
}

// Most is the largest number of steps that the sweep can take, and whole the steps of all its trials to their ends.
// lengths[i-1] is that of trial i; one length alone is that of all.
func Most(s *configs.Sweep, lengths []Length) (most, whole int) {
	if len(lengths) == 1 {
		lengths = slices.Repeat(lengths, s.Total())
	}
	for _, n := range s.Trials {
		sizes := rungSizes(s, n)
		further := make([][]int, len(sizes)) // steps of each trial from rung to rung
		for _, l := range lengths[:n] {
			whole += l.Steps
			from := 0
			for rung, step := range Rungs(s, l.Steps, l.Boundary) {
				further[rung] = append(further[rung], step-from)
				from = step
			}
		}
		for rung, size := range sizes {
			slices.Sort(further[rung])
			for _, steps := range further[rung][n-size:] {
				most += steps
			}
		}
		lengths = lengths[n:]
	}
	return most, whole
}

// Checkpoints is the largest number of trials that have checkpoints at the same time, if atOnce trials at most have begun and
// reached no rung, those of [Decision.Delete] are deleted at once, and none fails. Each that fails can have one more.
func Checkpoints(s *configs.Sweep, atOnce int) int {
	n := 0
	for _, size := range s.Trials {
		if s.Halving {
			n += max(s.Keep, rungSizes(s, size)[1])
		}
	}
	return min(max(n, s.Keep)+atOnce, s.Total())
}
