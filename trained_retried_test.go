package berth

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
)

// Evaluating and predicting say once which copies failed and were repeated.
func TestTrainedTellsOfRepeatedCopies(t *testing.T) {
	const text = "data: digits\nmodel: {preset: mlp, hidden: [8]}\n"
	c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r, err := Open(t.Context(), c)
	if err == nil {
		_, err = r.Train(t.Context(), TrainOptions{Dir: dir, MaxSteps: 1})
		defer r.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenTrained(t.Context(), c, Weights{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	clean, err := m.Eval(t.Context())
	if err != nil || m.Retried() != nil {
		t.Fatalf("%v, %v", m.Retried(), err)
	}
	broken := func() (devs []device.Device) {
		devs, err := fault.Wrap(m.setup.devs, []fault.Fault{{Device: "cpu:0", Op: fault.CopyOut, N: 1, Kind: fault.Fail}})
		if err != nil {
			t.Fatal(err)
		}
		return devs
	}
	m.setup.devs = broken()
	if got, err := m.Eval(t.Context()); err != nil || got.Loss != clean.Loss {
		t.Errorf("evaluated to %v, %v; without a fault to %v", got.Loss, err, clean.Loss)
	}
	const want = "copy-out on cpu:0 failed: a fault that was asked for (cpu:0 copy-out 1 fail); trying again"
	if told := strings.Join(m.Retried(), "\n"); told != want {
		t.Errorf("it tells %q", told)
	}
	m.setup.devs = broken()
	if _, err := m.Predict(t.Context(), "", func(Prediction) error { return nil }); err != nil {
		t.Error(err)
	}
	if told := strings.Join(m.Retried(), "\n"); told != want {
		t.Errorf("it tells %q", told)
	}
	if told := m.Retried(); told != nil {
		t.Errorf("it tells again: %q", told)
	}
}
