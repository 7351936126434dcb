package session_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// Trainings whose floors do not fit together take turns, and an evaluation beside them has its own: nobody waits for the
// end of another. Each has the weights that it has alone.
func TestTurns(t *testing.T) {
	testall.Long(t)
	c := runtest.Parsed(t, "digits", "train.epochs=1000", "optimizer.weight_decay=0.01")
	_, floor, _ := alone(t, c, berth.TrainOptions{MaxSteps: 1})
	evaluated := berth.Weights{Dir: t.TempDir()}
	d := runtest.OpenDevices(t, "cpu", floor+floor/2)
	if _, err := runtest.OpenOn(t, d, c).Train(t.Context(), berth.TrainOptions{Dir: evaluated.Dir, MaxSteps: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	const runs = 3
	var all, turns sync.WaitGroup // turns: of each run, a step after it has given its memory away
	var reports [runs]*berth.Report
	turns.Add(runs)
	for i := range runs {
		r, gave, took := runtest.OpenOn(t, d, c), false, false
		o := &berth.Observer{
			Note: func(text string) { gave = gave || strings.HasPrefix(text, "takes turns") },
			Step: func(berth.Step) {
				if gave && !took {
					took = true
					turns.Done()
				}
			},
		}
		all.Go(func() {
			var err error
			if reports[i], err = r.Train(ctx, berth.TrainOptions{Dir: t.TempDir(), Observer: o, AssertResident: true}); !errors.Is(err, berth.ErrStopped) {
				t.Error(err)
				if !took {
					turns.Done()
				}
			}
		})
	}
	if _, err := runtest.OpenOn(t, d, c).Eval(t.Context(), evaluated); err != nil {
		t.Errorf("an evaluation beside them: %v", err)
	}
	turns.Wait()
	enough()
	all.Wait()
	for i, got := range reports {
		if got == nil {
			continue
		}
		if want, _, _ := alone(t, c, berth.TrainOptions{MaxSteps: got.Steps}); got.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("training %d has other weights than alone after %d steps", i, got.Steps)
		}
		if got.SuspendedS == 0 {
			t.Errorf("training %d does not report for how long others had their turn", i)
		}
	}
}
