package partition_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/partition"
)

// Another graph of a model has the stages of the model's plan; planning it can
// be stopped.
func TestAnswers(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	g, err := models.Eval(r.Spec, models.Size{Microbatch: 10})
	if err != nil {
		t.Fatal(err)
	}
	p, err := partition.Derive(r.Plan, g, partition.DeriveOptions{For: partition.Answers})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Stages) != 2 || p.Microbatches != 1 {
		t.Errorf("%d stages, %d microbatches", len(p.Stages), p.Microbatches)
	}
	for i, s := range p.Stages {
		if want := r.Plan.Stages[i]; !slices.Equal(s.Blocks, want.Blocks) || s.Device != want.Device {
			t.Errorf("stage %d is %v on device %d, want %v on %d", i, s.Blocks, s.Device, want.Blocks, want.Device)
		}
	}
	one := r.Plan.Stages[1].Device
	spec := []device.Spec{r.Devices[0].Spec(), r.Devices[1].Spec()}
	on := []int{r.Plan.Stages[0].Device + 2, one + 2}
	if p, err = partition.Derive(r.Plan, g, partition.DeriveOptions{For: partition.Answers, Devices: slices.Concat(spec, spec), On: on, Stop: nil}); err != nil || p.Stages[1].Device != one+2 {
		t.Errorf("on other devices: stage 1 is on device %d, want %d; %v", p.Stages[1].Device, one+2, err)
	}
	if len(p.Memory) != 2 || p.Memory[0].Device != 2 || p.Memory[1].Device != 3 {
		t.Errorf("stages are on devices 2 and 3 of 4, the forecasts are %+v", p.Memory)
	}
	enough := errors.New("enough")
	if _, err := partition.Derive(r.Plan, g, partition.DeriveOptions{For: partition.Answers, Stop: func() error { return enough }}); !errors.Is(err, enough) {
		t.Errorf("stopped: %v", err)
	}
}
