package specs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/runtest"
)

const ownModelConfig = "data: digits\nmodel: {preset: given}\ntrain: {epochs: 2, batch: 64}\noptimizer: {name: adam, lr: 0.01}\n"

// gate is a model that is a function: two ways through it, multiplied.
func gate(b *models.Builder, x *graph.Value) *graph.Value {
	x = b.Stack(x, models.Flatten{})
	y := ops.Mul(b.Builder, b.Stack(x, models.Dense{Units: 24}), b.Stack(x, models.Dense{Units: 24}, models.Sigmoid{}))
	return b.Stack(y, models.Named{Name: "head", Layer: models.Dense{Units: 10}})
}

func openOwnModel(t *testing.T, text string, m models.Layer) (*berth.Run, error) {
	t.Helper()
	c, err := configs.Parse("own.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{Model: m})
	if err == nil {
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return r, err
}

// Layers that Go code writes compute what the same layers of a config do.
func TestOwnLayersAreThoseOfAConfig(t *testing.T) {
	const layers = "model:\n  layers:\n    - {type: conv2d, name: c, channels: 4, kernel: 3, padding: same, activation: relu}\n    - {type: max_pool, name: p, kernel: 2}\n" +
		"    - {type: flatten, name: f}\n    - {type: residual, name: r, layers: [{type: layernorm, name: n}, {type: dense, name: d, units: 64}]}\n    - {type: dropout, name: o, rate: 0.2}\n    - {type: dense, name: h, units: 10}\n"
	yaml, err := openOwnModel(t, strings.Replace(ownModelConfig, "model: {preset: given}\n", layers, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	own, err := openOwnModel(t, ownModelConfig, models.Stack{
		models.Named{Name: "c", Layer: models.Conv2D{Channels: 4, Kernel: 3, Padding: models.Same, Activation: "relu"}},
		models.Named{Name: "p", Layer: &models.MaxPool{Kernel: 2}},
		models.Named{Name: "f", Layer: models.Flatten{}},
		models.Named{Name: "r", Layer: models.Residual{Layers: models.Stack{
			models.Named{Name: "n", Layer: models.LayerNorm{}}, models.Named{Name: "d", Layer: models.Dense{Units: 64}},
		}}},
		models.Named{Name: "o", Layer: models.Dropout{Rate: 0.2}},
		models.Named{Name: "h", Layer: models.Dense{Units: 10}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want, got := runtest.Train(t, yaml, berth.TrainOptions{Dir: t.TempDir()}), runtest.Train(t, own, berth.TrainOptions{Dir: t.TempDir()})
	if got.WeightsSHA256 != want.WeightsSHA256 {
		t.Errorf("the weights are %s, of the config %s", got.WeightsSHA256, want.WeightsSHA256)
	}
}

// A model that is a function trains, resumes to the bit, evaluates and predicts. Its run is
// used with the same model only, and a program without one is told whose it is.
func TestOwnModel(t *testing.T) {
	whole, apart := t.TempDir(), t.TempDir()
	r, err := openOwnModel(t, ownModelConfig, models.Func(gate))
	if err != nil {
		t.Fatal(err)
	}
	want := runtest.Train(t, r, berth.TrainOptions{Dir: whole, AssertResident: true})
	if *want.Final.ValAccuracy < 0.9 {
		t.Errorf("accuracy %v", *want.Final.ValAccuracy)
	}
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: apart, MaxSteps: 13}); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(filepath.Join(apart, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := openOwnModel(t, string(saved), models.Func(gate))
	if err != nil {
		t.Fatal(err)
	}
	if got := runtest.Train(t, again, berth.TrainOptions{Dir: apart, Resume: true}); got.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("a resumed run has other weights")
	}
	e, err := r.Eval(t.Context(), berth.Weights{Dir: whole})
	if err != nil || *e.Accuracy < 0.9 {
		t.Errorf("%+v, %v", e, err)
	}
	usesOwnModel(t, string(saved), whole, *e.Accuracy)
}

// usesOwnModel opens the trained model of a run folder: with its model, and with others.
func usesOwnModel(t *testing.T, saved, dir string, accuracy float64) {
	c, err := configs.Parse("config.yaml", []byte(saved), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{Model: models.Func(gate)})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := m.Eval(t.Context()); err != nil || *e.Accuracy != accuracy {
		t.Errorf("%+v, %v: the run's accuracy is %v", e, err, accuracy)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	other := models.Stack{models.Flatten{}, models.Dense{Units: 10}}
	if _, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{Model: other}); !errors.Is(err, berth.ErrChanged) || !strings.Contains(err.Error(), "the model that the program gives is not the one of checkpoint") {
		t.Errorf("another model: %v", err)
	}
	run, err := openOwnModel(t, saved, other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true}); !errors.Is(err, berth.ErrChanged) || !strings.Contains(err.Error(), "the model that the program gives is not") {
		t.Errorf("resumed with another model: %v", err)
	}
	const want = "the model was built by the program "
	if _, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{}); !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), want) {
		t.Errorf("without the model: %v", err)
	}
	if _, err := openOwnModel(t, saved, nil); !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), want) {
		t.Errorf("a run without the model: %v", err)
	}
}

func TestOwnModelsThatCannotBe(t *testing.T) {
	for want, c := range map[string]struct {
		text  string
		model models.Layer
	}{
		`own.yaml:2: these options cannot be used: the program gives a model, but model.preset is "mlp": write`: {strings.Replace(ownModelConfig, "given", "mlp", 1), models.Func(gate)},
		"own.yaml:2: these options cannot be used: model.preset is `given`, but the program passed no model":    {ownModelConfig, nil},
		`layer 0 (func "model"): its function panicked: oops`:                                                   {ownModelConfig, models.Func(func(*models.Builder, *graph.Value) *graph.Value { panic("oops") })},
		`layer 1 (dense "dense1"): units is 0: give it a whole number of at least 1`:                            {ownModelConfig, models.Stack{models.Flatten{}, models.Dense{}}},
		`layer 0 (nil "nil0"): it is nil: give it a layer`:                                                      {ownModelConfig, models.Stack{nil}},
		"the model tells 5 classes apart, but the data has 10":                                                  {ownModelConfig, models.Stack{models.Flatten{}, models.Dense{Units: 5}}},
	} {
		if _, err := openOwnModel(t, c.text, c.model); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nexpected %s", err, want)
		}
	}
}
