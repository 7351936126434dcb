package answer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/partition"
)

// generatorOf is a generator of several texts of a small GPT.
func generatorOf(t *testing.T, texts int) *infer.Generator {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	closing := func(close func() error) {
		t.Cleanup(func() {
			if err := close(); err != nil {
				t.Error(err)
			}
		})
	}
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1})
	must(err)
	closing(devs[0].Close)
	s := models.Spec{Input: shape.I32(24), Target: shape.I32(24), Loss: "cross_entropy", Tokens: 19, Classes: 19,
		Layers: models.GPT(models.GPTOptions{Vocab: 19, Context: 24, Layers: 1, Heads: 2, Width: 16}, graph.Pos{})}
	g, err := models.Predict(s, models.Size{Microbatch: 1})
	must(err)
	plan, err := partition.New(g, partition.PlanOptions{Devices: []device.Spec{devs[0].Spec()}, Microbatches: 1})
	must(err)
	rt, err := executor.NewRuntime(devs, executor.RuntimeOptions{})
	must(err)
	closing(rt.Close)
	gen, err := infer.NewGenerator(t.Context(), rt, infer.Model{Spec: s, Plan: plan, Microbatch: 1}, infer.GeneratorOptions{Context: 24, Texts: texts})
	must(err)
	closing(gen.Close)
	must(gen.InitFrom(t.Context(), executor.Contents{Write: func(v *graph.Value, dst []byte) error { models.Fill(v, 3, dst); return nil }}))
	return gen
}

// A text whose token cannot be chosen since that panics ends with the panic, in its own goroutine.
// Texts of the same step get their tokens, and later ones, too.
func TestPanicOfOneText(t *testing.T) {
	gen := generatorOf(t, 2)
	turn := make(chan struct{}, 1)
	j := newJoint(gen, func(_ context.Context, f func() error) error {
		turn <- struct{}{}
		defer func() { <-turn }()
		return f()
	})
	alone, want := j.sit(0, infer.Sampling{TopP: 1}), []int32(nil)
	for i := range 3 {
		token, err := alone.Append(t.Context(), []int32{5}, i)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, token)
	}
	alone.leave()

	good := j.sit(0, infer.Sampling{TopP: 1})
	lost := &seat{joint: j, place: 7, done: make(chan error, 1)} // no text has this place
	for i, want := range want {
		var both sync.WaitGroup
		j.lead <- struct{}{} // until both wait
		both.Go(func() {
			if token, err := good.Append(t.Context(), []int32{5}, i); token != want || err != nil {
				t.Errorf("token %d is %d, %v; alone it is %d", i, token, err, want)
			}
		})
		both.Go(func() {
			defer func() {
				if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), "index out of range [7]") {
					t.Errorf("the panic is %v", err)
				}
			}()
			_, err := lost.Append(t.Context(), []int32{5}, i)
			t.Errorf("no panic, but %v", err)
		})
		for waiting := 0; waiting < 2; {
			j.mu.Lock()
			waiting = len(j.waiting)
			j.mu.Unlock()
		}
		<-j.lead
		both.Wait()
	}
	good.leave()
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := good.Append(ended, []int32{5}, 3); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
