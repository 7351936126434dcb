package berth

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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

// A device that is lost while several share the batches ends the work with its error,
// and work that was cancelled leaves nothing behind, whenever that was.
func TestTrainedOnGroupsEnds(t *testing.T) {
	const text = "data: digits\nmodel: {preset: mlp, hidden: [8]}\ntrain: {batch: 16}\ndevices: cpu:3\n"
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
	for _, f := range []fault.Fault{
		{Device: "cpu:1", Op: fault.Launch, N: 3, Kind: fault.Lost}, {Device: "cpu:2", Op: fault.Peer, N: 1, Kind: fault.Lost},
		{Device: "cpu:0", Op: fault.CopyOut, N: 4, Kind: fault.Lost},
	} {
		m, err := OpenTrained(t.Context(), c, Weights{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if m.setup.groups.count != 3 {
			t.Fatalf("groups: %+v", m.setup.groups)
		}
		whole := m.setup.devs
		for i := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
			if _, err := m.Eval(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		if m.setup.devs, err = fault.Wrap(whole, []fault.Fault{f}); err != nil {
			t.Fatal(err)
		}
		n := 0
		_, err = m.Predict(t.Context(), "", func(p Prediction) error {
			if p.Index != n {
				t.Fatalf("answer %d after %d", p.Index, n)
			}
			n++
			return nil
		})
		if !errors.Is(err, device.ErrLost) || !strings.Contains(err.Error(), string(f.Device)) {
			t.Errorf("%+v: %v", f, err)
		}
		m.setup.devs = whole
		_ = m.Close() // which repeats the loss
	}
}
