package smallrun

import (
	"testing"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// The sizes of the run: its 1437 samples to train on are whole batches.
const (
	Batch = 479
	Steps = 3 // in an epoch
	Seed  = 3
)

// Run is a model that is loaded. The test's end closes it.
type Run struct {
	Data    *datasets.Dataset
	Devices []device.Device
	Spec    models.Spec
	Plan    *partition.Plan
	Runtime *executor.Runtime
	Program *executor.Program
}

// New loads the model on a list of devices such as cpu:2, and gives its
// variables their first values.
func New(t *testing.T, devices string) *Run {
	t.Helper()
	return NewWith(t, devices, residency.TenantOptions{})
}

// NewWith is New with options of the tenant.
func NewWith(t *testing.T, devices string, o residency.TenantOptions) *Run {
	t.Helper()
	r := &Run{}
	var err error
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r.Data, err = datasets.Open(t.Context(), datasets.Spec{Source: "digits", Split: 0.8, Seed: Seed})
	must(err)
	r.open(t, devices)
	info := &r.Data.Info
	r.Spec = models.Spec{
		Input: info.Inputs[0].Meta, Target: info.Target.Meta, Loss: "cross_entropy", Seed: Seed, Classes: info.Classes,
		Layers: models.MLP([]int{8}, "relu", info.Classes, graph.Pos{}),
	}
	sgd := optim.Spec{Name: "sgd", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.1}}
	g, err := models.Train(r.Spec, sgd, models.Size{Microbatch: Batch, Microbatches: 1, Batch: Batch, Ring: Steps})
	must(err)
	var specs []device.Spec
	for _, d := range r.Devices {
		specs = append(specs, d.Spec())
	}
	r.Plan, err = partition.New(g, partition.PlanOptions{Devices: specs, Microbatches: 1})
	must(err)
	r.Runtime, err = executor.NewRuntime(r.Devices, executor.RuntimeOptions{Tenant: o})
	must(err)
	t.Cleanup(func() {
		if err := r.Runtime.Close(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	r.Program, err = r.Runtime.Load(executor.LoadOptions{
		Net: "train", Full: r.Plan, LastMicrobatches: 1,
		Constant: func(*graph.Value, int) []byte { return shape.Bytes([]int32{0}) },
	})
	must(err)
	must(r.Program.Init(t.Context(), r.First))
	return r
}

// First gives a variable its first contents, by rule.
func (r *Run) First(v *graph.Value, dst []byte) error {
	models.Fill(v, Seed, dst)
	return nil
}

// open opens the devices; the test's end closes them, after the runtime.
func (r *Run) open(t *testing.T, devices string) {
	t.Helper()
	list, err := device.ParseList(devices)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		more, err := device.Open(x.Kind, device.OpenOptions{Count: x.Count})
		if err != nil {
			t.Fatal(err)
		}
		r.Devices = append(r.Devices, more...)
	}
	t.Cleanup(func() {
		for _, d := range r.Devices {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
