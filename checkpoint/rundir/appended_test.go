package rundir

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/checkpoint/runstate"
)

// A gap gives back the lines that were added, in order.
func TestGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g gap
		var losses []float64
		var waiting []Line
		step, epoch := 0, 0
		for range rapid.IntRange(1, 60).Draw(t, "lines") {
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				waiting = append(waiting, runstate.Boundary{Epoch: epoch, Step: step, SamplesPerS: 3})
				epoch++
			case 1:
				if line := g.next(losses); line != nil {
					if !reflect.DeepEqual(line, waiting[0]) {
						t.Fatalf("%+v, expected %+v", line, waiting[0])
					}
					waiting = waiting[1:]
				} else if len(waiting) > 0 {
					t.Fatalf("nothing, expected %+v", waiting[0])
				}
				continue
			default:
				step += rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 3}).Draw(t, "distance")
				losses = append(losses, float64(step)/2)
				line := runstate.Step{Step: step, Epoch: epoch, Loss: float64(step) / 2, LearningRate: 1 / float64(step)}
				if rapid.Bool().Draw(t, "norm") {
					line.GradNorm = &line.LearningRate
				}
				waiting = append(waiting, line)
			}
			if !g.add(waiting[len(waiting)-1], len(losses)-1) {
				t.Fatal("no room")
			}
		}
		for _, want := range waiting {
			if line := g.next(losses); !reflect.DeepEqual(line, want) {
				t.Fatalf("%+v, expected %+v", line, want)
			}
		}
		if line := g.next(losses); line != nil {
			t.Fatalf("%+v, expected no line", line)
		}
	})
}

// The steps of an epoch take one stretch, and a gap has room for so many epochs.
func TestGapIsSmall(t *testing.T) {
	var g gap
	for step := 10; step <= 100_000; step += 10 {
		g.add(runstate.Step{Step: step}, step/10-1)
	}
	g.add(runstate.Boundary{Step: 100_000}, 9999)
	if n := len(g.stretches); n != 1 {
		t.Errorf("%d stretches for an epoch", n)
	}
	for len(g.stretches) < maxStretches {
		if !g.add(runstate.Boundary{}, 0) {
			t.Fatal("no room")
		}
	}
	if g.add(runstate.Boundary{}, 0) {
		t.Error("room without end")
	}
}
