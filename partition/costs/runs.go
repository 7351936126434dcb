package costs

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// mostRuns is how many runs of a kind are kept, and fewestRuns how many an interval takes.
const (
	mostRuns   = 20
	fewestRuns = 5
)

// RunKind is the kind of runs whose steps are as far from their prediction: on devices like these, with so many stages and
// replicas, with or without moves for lack of memory, and compiled or op by op.
func RunKind(devices []device.Spec, stages, replicas int, moves, opByOp bool) string {
	return fmt.Sprintf("%s; stages %d; replicas %d; moves %v; op by op %v", On(devices, 0), stages, replicas, moves, opByOp)
}

// Runs are, of the newest runs of a kind, the oldest first, the time that a step took as a multiple of the predicted one.
func (f *File) Runs(kind string) []float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.runs[kind])
}

// AddRun adds a run: see [File.Runs] and [File.Add].
func (f *File) AddRun(ctx context.Context, kind string, ratio float64) error {
	if !isRatio(ratio) {
		return fmt.Errorf("a step takes %v times as long as predicted: give a number above 0, up to %g", ratio, float64(mostRatio))
	}
	return f.update(ctx, func(k *kept) {
		list := append(slices.Clone(k.runs[kind]), ratio)
		k.runs[kind] = list[max(0, len(list)-mostRuns):]
	})
}

// Interval is where most of these ratios are: all but a tenth, those farthest from the median. few: they are too few to tell.
func Interval(ratios []float64) (low, high float64, in int, few bool) {
	if len(ratios) < fewestRuns {
		return 0, 0, 0, true
	}
	list := slices.Sorted(slices.Values(ratios))
	middle := list[len(list)/2]
	for range len(ratios) / 10 {
		if middle/list[0] > list[len(list)-1]/middle {
			list = list[1:]
		} else {
			list = list[:len(list)-1]
		}
	}
	return list[0], list[len(list)-1], len(list), false
}
