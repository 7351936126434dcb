package trained_test

import (
	"math"
	"slices"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/runtest"
)

// Of a run with an average, a boundary's loss, that of an evaluation, with the run's plan and with
// one of its own, and the answers are all of the average, to the bit.
func TestAnswersOfAverages(t *testing.T) {
	set := []string{"train.ema=0.9", "checkpoint.keep.last=9", "train.epochs=2"}
	for _, more := range [][]string{
		nil,
		{"devices.memory=50%"},
		{"devices.use=cpu:2", "partition.stages=2"},
	} {
		r, dir := runtest.Open(t, runtest.Everything, append(more, set...)...), t.TempDir()
		list, _ := boundaries(t, r, dir)
		for i, b := range list {
			w := berth.Weights{Dir: dir, ID: uint64(i + 1)}
			of, err := r.Eval(t.Context(), w)
			if err != nil || of.Loss != *b.ValLoss {
				t.Errorf("%v: boundary %d: loss %v, of the run %v, %v", more, i, *b.ValLoss, of.Loss, err)
			}
			m, err := berth.OpenTrained(t.Context(), r.Config, w, berth.TrainedOptions{})
			if err != nil {
				t.Fatal(err)
			}
			own, err := m.Eval(t.Context())
			if err != nil || own.Loss != *b.ValLoss {
				t.Errorf("%v: boundary %d: loss %v, of the checkpoint %v, %v", more, i, *b.ValLoss, own.Loss, err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A training answers with the average of now, which moves towards the weights.
func TestTrainingAnswersWithTheAverage(t *testing.T) {
	text := "data: digits\nmodel: {preset: mlp, hidden: []}\ntrain: {epochs: 1, batch: 64, ema: 0.5}\noptimizer: {name: sgd, lr: 0.1}\n"
	tr, err := runtest.Open(t, text).Start(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}()
	fetch := func(name string) []float32 {
		t.Helper()
		x, err := tr.Fetch(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return x.Data().([]float32)
	}
	want := fetch("layers.0.weight")
	for range 3 {
		if err := tr.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		w, got := fetch("layers.0.weight"), fetch("layers.0.weight/ema")
		moved := false
		for i := range want {
			want[i] += 0.5 * (w[i] - want[i])
			if math.Abs(float64(want[i]-got[i])) > 1e-6 {
				t.Fatalf("the average of weight %d is %v, want %v", i, got[i], want[i])
			}
			moved = moved || got[i] != w[i]
		}
		if copy(want, got); !moved {
			t.Fatal("the average is the weight")
		}
	}
	ones, err := hosttensor.Over(shape.F32(1, 1, 8, 8), shape.Bytes(slices.Repeat([]float32{1}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := tr.Predict(t.Context(), ones)
	if err != nil {
		t.Fatal(err)
	}
	logits, sum := slices.Clone(fetch("layers.0.bias/ema")), 0.0
	for i, w := range want {
		logits[i/64] += w
	}
	for _, x := range logits {
		sum += math.Exp(float64(x))
	}
	for i, p := range answer.Data().([]float32) {
		if math.Abs(math.Exp(float64(logits[i]))/sum-float64(p)) > 1e-5 {
			t.Errorf("class %d: %v, of the average %v", i, p, math.Exp(float64(logits[i]))/sum)
		}
	}
}
