package berth_test

import (
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
)

// A program that takes the steps itself gets the weights, checkpoints and metrics of
// Train, also over a resume in the middle of an epoch.
func TestOwnLoopIsTrain(t *testing.T) {
	r, err := openCorners(t, corners(), cornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	want := train(t, r, berth.TrainOptions{Dir: t.TempDir()})
	dir := t.TempDir()
	losses := 0
	for _, resume := range []bool{false, true} {
		tr, err := r.Start(t.Context(), berth.TrainOptions{Dir: dir, Resume: resume, AssertResident: true, Observer: &berth.Observer{
			Boundary: func(berth.Boundary) { losses++ },
		}})
		if err != nil {
			t.Fatal(err)
		}
		for tr.More() && (resume || tr.Steps() < 13) {
			if err := tr.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		rep, err := tr.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if resume && (rep.WeightsSHA256 != want.WeightsSHA256 || rep.Steps != 30 || !slices.Equal(rep.Losses, want.Losses)) {
			t.Errorf("%d steps, other weights than Train's: %t", rep.Steps, rep.WeightsSHA256 != want.WeightsSHA256)
		}
		if err := tr.Step(t.Context()); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("a step after Finish: %v", err)
		}
		if err := errors.Join(tr.Close(), tr.Close()); err != nil {
			t.Error(err)
		}
	}
	if losses != 3 {
		t.Errorf("%d boundaries", losses)
	}
}

// Variables go out and in, and samples are replaced, in numbers that the ledger has.
func TestOwnLoopMovesTensors(t *testing.T) {
	r, err := openCorners(t, corners(), cornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := r.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir(), AssertResident: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir()}); !errors.Is(err, berth.ErrInUse) {
		t.Errorf("Train meanwhile: %v", err)
	}
	b, err := tr.Next(t.Context())
	if err != nil || b.Samples != 16 || !b.Input.Shape().Eq(tensor.Shape{16, 2}) || !b.Target.Shape().Eq(tensor.Shape{16}) {
		t.Fatalf("%+v, %v", b, err)
	}
	for i := range b.Input.Float32s() {
		b.Input.Float32s()[i] = float32(math.NaN())
	}
	for i := range b.Input.Float32s() {
		b.Input.Float32s()[i] = 0.5
	}
	if err := tr.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	w, err := tr.Fetch(t.Context(), "layers.0.bias")
	if err != nil {
		t.Fatal(err)
	}
	zero := tensor.New(tensor.WithShape(w.Shape()...), tensor.Of(tensor.Float32))
	if err := tr.Replace(t.Context(), "layers.0.bias", zero); err != nil {
		t.Fatal(err)
	}
	again, err := tr.Fetch(t.Context(), "layers.0.bias")
	if err != nil || slices.ContainsFunc(again.Float32s(), func(x float32) bool { return x != 0 }) {
		t.Errorf("%v, %v", again, err)
	}
	if _, err := tr.Fetch(t.Context(), "layers.0.bais"); !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), "did you mean layers.0.bias?") {
		t.Errorf("%v", err)
	}
	points := tensor.New(tensor.WithBacking([]float32{1, 1, -1, -1, 1, -1}), tensor.WithShape(3, 2))
	for range 2 {
		out, err := tr.Predict(t.Context(), points)
		if err != nil || !out.Shape().Eq(tensor.Shape{3, 4}) {
			t.Fatalf("%v, %v", out, err)
		}
		if sum := out.Float32s()[0] + out.Float32s()[1] + out.Float32s()[2] + out.Float32s()[3]; math.Abs(float64(sum)-1) > 1e-5 {
			t.Errorf("probabilities add up to %v", sum)
		}
		if err := tr.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	rep, err := tr.Finish(t.Context())
	if err != nil || rep.Ledger.ByReason["fetch"] < 2*8*4 {
		t.Errorf("%+v, %v", rep.Ledger.ByReason, err)
	}
}
