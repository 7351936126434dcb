package trained_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/internal/runtest"
)

// lora is an adapter beside a base that follows from the seed.
const lora = `
name: tuned
data: {source: digits, split: 0.2}
model:
  layers:
    - flatten
    - {type: dense, name: fc1, units: 96, activation: relu}
    - {type: dense, name: fc2, units: 10}
train: {epochs: 1, batch: 64}
adapt: {lora: {rank: 2, alpha: 4, targets: [fc1]}}
`

// TestAnswersShareABase: services of a run with an adapter, of several adapters, and evaluations have the base of a training on the
// same devices, and leave it to that. Their answers are those of devices of their own.
func TestAnswersShareABase(t *testing.T) {
	c, dir := runtest.Parsed(t, lora), t.TempDir()
	want := runtest.Train(t, runtest.Open(t, lora), berth.TrainOptions{Dir: dir})
	d := runtest.OpenDevices(t, "cpu:1", 64<<20)
	on := berth.TrainedOptions{Devices: d}
	model, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, on)
	if err != nil {
		t.Fatal(err)
	}
	service, err := model.Serve(t.Context(), berth.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	adapters, err := berth.OpenAdapters(t.Context(), []berth.Adapter{{Name: "a", Config: c, Weights: berth.Weights{Dir: dir}}}, on)
	if err != nil {
		t.Fatal(err)
	}
	several, err := adapters.Serve(t.Context(), berth.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	base := int64(4 * (64*96 + 96 + 96*10 + 10))
	one, more := service.Stats().WeightBytes, several.Stats().WeightBytes
	if one < base || more >= base || one-base != more {
		t.Errorf("the services have copied %d and %d bytes of weights in; the base has %d", one, more, base)
	}
	var notes []string
	run := runtest.OpenOn(t, d, c)
	training, err := run.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir(), AssertResident: true, Observer: &berth.Observer{Note: func(text string) { notes = append(notes, text) }}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(notes, func(text string) bool {
		return strings.HasPrefix(text, "the frozen weights are those of tuned, tuned (2) too, and are on the devices once: 28.2 KiB")
	}) {
		t.Errorf("the training says %q", notes)
	}
	if err := errors.Join(training.Step(t.Context()), service.Close(), model.Close(), several.Close(), adapters.Close()); err != nil {
		t.Fatal(err)
	}
	alone, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	beside, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, on)
	if err != nil {
		t.Fatal(err)
	}
	x, err := alone.Eval(t.Context())
	y, other := beside.Eval(t.Context())
	if err := errors.Join(err, other, alone.Close(), beside.Close()); err != nil || x.Loss != y.Loss {
		t.Errorf("losses %v and %v: %v", x.Loss, y.Loss, err)
	}
	for training.More() {
		if err := training.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	rep, err := training.Finish(t.Context())
	if err := errors.Join(err, training.Close()); err != nil || rep.WeightsSHA256 != want.WeightsSHA256 {
		t.Errorf("the training has other weights than alone: %v", err)
	}
}
