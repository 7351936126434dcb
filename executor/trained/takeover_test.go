package trained_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
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
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err == nil {
		_, err = r.Train(t.Context(), berth.TrainOptions{Dir: dir, MaxSteps: 1})
		defer r.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	open := func(faults ...fault.Fault) *berth.Trained {
		t.Helper()
		m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{Faults: faults})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
		return m
	}
	m := open()
	clean, err := m.Eval(t.Context())
	if err != nil || m.Warnings() != nil {
		t.Fatalf("%v, %v", m.Warnings(), err)
	}
	broken := fault.Fault{Device: "cpu:0", Op: fault.CopyOut, N: 1, Kind: fault.Fail}
	m = open(broken)
	if got, err := m.Eval(t.Context()); err != nil || got.Loss != clean.Loss {
		t.Errorf("evaluated to %v, %v; without a fault to %v", got.Loss, err, clean.Loss)
	}
	const want = "copy-out on cpu:0 failed: injected fault (cpu:0 copy-out 1 fail); trying again"
	if told := strings.Join(m.Warnings(), "\n"); told != want {
		t.Errorf("it tells %q", told)
	}
	m = open(broken)
	if _, err := m.Predict(t.Context(), "", func(berth.Prediction) error { return nil }); err != nil {
		t.Error(err)
	}
	if told := strings.Join(m.Warnings(), "\n"); told != want {
		t.Errorf("it tells %q", told)
	}
	if told := m.Warnings(); told != nil {
		t.Errorf("it tells again: %q", told)
	}
}

// After the loss of a device, the others take over its batches: answers come in order,
// each once, with the same bits. Without another device, the loss is the error. Work that
// was cancelled leaves nothing behind, whenever that was.
func TestTrainedTakesOver(t *testing.T) {
	const text = "data: digits\nmodel: {preset: mlp, hidden: [8]}\ntrain: {batch: 8}\ndevices: cpu:3\n" // each device has a batch of any nine
	c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err == nil {
		_, err = r.Train(t.Context(), berth.TrainOptions{Dir: dir, MaxSteps: 1})
		defer r.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	open := func(faults ...fault.Fault) *berth.Trained {
		t.Helper()
		m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{Faults: faults})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	answers := func(m *berth.Trained) (list [][]float32, err error) {
		_, err = m.Predict(t.Context(), "", func(p berth.Prediction) error {
			if p.Index != len(list) {
				t.Fatalf("answer %d after %d", p.Index, len(list))
			}
			list = append(list, slices.Clone(p.Values))
			return nil
		})
		return list, err
	}
	plain := open()
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
		if _, err := plain.Eval(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancel()
	}
	want, err := answers(plain)
	var score berth.Evaluation
	if err == nil {
		score, err = plain.Eval(t.Context())
	}
	if err = errors.Join(err, plain.Close()); err != nil {
		t.Fatal(err)
	}
	one := fault.Fault{Device: "cpu:1", Op: fault.Launch, N: 3, Kind: fault.Lost}
	two := fault.Fault{Device: "cpu:2", Op: fault.Peer, N: 1, Kind: fault.Lost}
	three := fault.Fault{Device: "cpu:0", Op: fault.CopyOut, N: 4, Kind: fault.Lost}
	failed := fault.Fault{Device: "cpu:2", Op: fault.Launch, N: 5, Kind: fault.Fail}
	for _, faults := range [][]fault.Fault{{one}, {two}, {three}, {failed}, {one, three}} {
		m := open(faults...)
		got, err := answers(m)
		if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%v: %d answers of %d, %v", faults, len(got), len(want), err)
		}
		told := strings.Join(m.Warnings(), "\n")
		if err := m.Close(); err != nil || strings.Count(told, "going on without") != len(faults) {
			t.Errorf("%v: it tells %q, %v", faults, told, err)
		}
		m = open(faults...)
		x, err := m.Eval(t.Context())
		if err != nil || x.Loss != score.Loss || *x.Accuracy != *score.Accuracy || len(x.DeviceLosses) != len(faults) {
			t.Errorf("%v: %+v, want %+v; %v", faults, x, score, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	m := open(one, two, three)
	_, err = answers(m)
	told := strings.Join(m.Warnings(), "\n")
	last := slices.DeleteFunc([]string{"cpu:0", "cpu:1", "cpu:2"}, func(id string) bool { return strings.Contains(told, "without "+id) })
	if !errors.Is(err, device.ErrLost) || len(last) != 1 || !strings.Contains(err.Error(), last[0]) { // any may be the last
		t.Errorf("without another device: %v; it tells %q", err, told)
	}
	_ = m.Close() // which repeats the loss
}

// A run's own calls evaluate and predict on each replica, and in stages, with the bits of
// one device.
func TestRunEvaluatesOnReplicas(t *testing.T) {
	const text = "data: digits\nmodel: {preset: mlp, hidden: [8]}\ntrain: {batch: 16, microbatches: 2, reduction: tree}\n"
	dir := t.TempDir()
	var want berth.Evaluation
	var first []float32
	for _, set := range [][]string{nil, {"devices.use=cpu:2"}, {"devices.use=cpu:2", "partition.replicas=2"}} {
		c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{Set: set})
		if err != nil {
			t.Fatal(err)
		}
		r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if set == nil {
			if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: dir, MaxSteps: 1}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := r.Eval(t.Context(), berth.Weights{Dir: dir})
		var values []float32
		if err == nil {
			_, err = r.Predict(t.Context(), berth.Weights{Dir: dir}, "", func(p berth.Prediction) error {
				values = append(values, p.Values...)
				return nil
			})
		}
		if err = errors.Join(err, r.Close()); err != nil {
			t.Fatalf("%v: %v", set, err)
		}
		if set == nil {
			want, first = got, values
		}
		if got.Loss != want.Loss || *got.Accuracy != *want.Accuracy || !slices.Equal(values, first) {
			t.Errorf("%v: %+v, want %+v; the same answers: %t", set, got, want, slices.Equal(values, first))
		}
	}
}
