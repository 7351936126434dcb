package train_test

import (
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/internal/runtest"
)

// A program that takes the steps itself gets the weights, checkpoints and metrics of
// Train, also over a resume in the middle of an epoch.
func TestOwnLoopIsTrain(t *testing.T) {
	r, err := runtest.OpenCorners(t, runtest.Corners(), runtest.CornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	want := runtest.Train(t, r, berth.TrainOptions{Dir: t.TempDir()})
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
	r, err := runtest.OpenCorners(t, runtest.Corners(), runtest.CornersConfig)
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
	if _, err := tr.Activations(t.Context(), "layers.0", nil); !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), "there is no last step") {
		t.Errorf("activations before the first step: %v", err)
	}
	class := b.Target.Int32s()[3]
	b.Target.Int32s()[3] = 4
	if err := tr.Step(t.Context()); !errors.Is(err, berth.ErrData) || !strings.Contains(err.Error(), "the batch of step 1: the class is 4") {
		t.Errorf("a class too many: %v", err)
	}
	b.Target.Int32s()[3] = class
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
	if out, err := tr.Activations(t.Context(), "layers.0", nil); err != nil || !out.Shape().Eq(tensor.Shape{16, 8}) {
		t.Errorf("activations of the last step's samples: %v, %v", out, err)
	}
	if _, err := tr.Activations(t.Context(), "layers.7", nil); err == nil || !strings.Contains(err.Error(), "layers.7") {
		t.Errorf("activations of no layer: %v", err)
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

// Two trainings share devices, and are stepped by turns from one goroutine.
func TestOwnLoopsShareDevices(t *testing.T) {
	alone, err := runtest.OpenCorners(t, runtest.Corners(), runtest.CornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	want := runtest.Train(t, alone, berth.TrainOptions{Dir: t.TempDir()})
	devices, err := berth.OpenDevices(configs.Devices{Use: "cpu"}, berth.DevicesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var both []*berth.Training
	var runs []*berth.Run
	for range 2 {
		r, err := berth.Open(t.Context(), alone.Config, berth.OpenOptions{Devices: devices, Data: runtest.Corners()})
		if err != nil {
			t.Fatal(err)
		}
		tr, err := r.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		both, runs = append(both, tr), append(runs, r)
	}
	for both[0].More() {
		for _, tr := range both {
			if err := tr.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, tr := range both {
		rep, err := tr.Finish(t.Context())
		if err != nil || rep.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("run %d: %v", i, err)
		}
		if err := errors.Join(tr.Close(), runs[i].Close()); err != nil {
			t.Error(err)
		}
	}
	if err := devices.Close(); err != nil {
		t.Error(err)
	}
}

// The loss of a device is told with the step and the newest checkpoint.
func TestOwnLoopLosesADevice(t *testing.T) {
	r, err := runtest.OpenCorners(t, runtest.Corners(), runtest.CornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	faults, err := fault.Parse("cpu:0 launch 20 lost")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := r.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir(), Faults: []fault.Fault{faults}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tr.Close(); err != nil && !errors.Is(err, device.ErrLost) {
			t.Error(err)
		}
	}()
	for err == nil && tr.More() {
		err = tr.Step(t.Context())
	}
	lost, ok := errors.AsType[*berth.DeviceError](err)
	if !ok || lost.Device != "cpu:0" || lost.Step < 2 {
		t.Fatalf("%v", err)
	}
	if _, err := tr.Finish(t.Context()); err == nil {
		t.Error("Finish after the loss is no error")
	}
}

// A number of the data that is not finite ends a training with the sample that has it,
// and Finish repeats the cause. What a program writes into a batch is found as well.
func TestOwnLoopNamesTheSampleThatIsNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	with := func(sample int, bad float32) *custom.Set { // a number of a sample is bad
		set := runtest.Corners()
		fill := set.Fill
		set.Fill = func(s custom.Sample, input, target *tensor.Dense) error {
			err := fill(s, input, target)
			if s.Index == sample {
				input.Float32s()[1] = bad
			}
			return err
		}
		return set
	}
	for _, c := range []struct {
		train, val *custom.Set
		write      bool
		want, more string // more of the config
	}{
		{with(17, inf), runtest.Corners(), false, ": the loss is not finite: the data has +Inf: element 1 of the input of sample 17 (row ", ""},
		{with(18, nan), runtest.Corners(), false, ": the loss is not finite: the data has NaN: element 1 of the input of sample 18 (row ", "devices: {op_by_op: plain}\n"},
		{runtest.Corners(), with(3, nan), false, ": the validation loss is not finite: the data has NaN: element 1 of the input of sample 3 (row ", ""},
		{runtest.Corners(), runtest.Corners(), true, "step 1: the loss is not finite: the data has NaN: element 0 of the input of sample ", ""},
	} {
		c.train.Validation = c.val
		r, err := runtest.OpenCorners(t, c.train, runtest.CornersConfig+c.more)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := r.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if c.write {
			b, err := tr.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b.Input.Float32s()[6] = nan
		}
		for err == nil && tr.More() {
			err = tr.Step(t.Context())
		}
		if !errors.Is(err, berth.ErrNonFinite) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "learning rate") {
			t.Errorf("%v, want %q", err, c.want)
		}
		if _, err := tr.Finish(t.Context()); !errors.Is(err, berth.ErrNonFinite) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Finish: %v", err)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Replicas read a program's own samples as one device does.
func TestOwnSamplesOnReplicas(t *testing.T) {
	text := strings.Replace(runtest.CornersConfig, "batch: 16", "batch: 16, microbatches: 4, reduction: tree", 1)
	hashes := map[string]bool{}
	for _, where := range []string{"", "devices: cpu:2\n", "devices: cpu:2\npartition: {replicas: 2}\n"} {
		r, err := runtest.OpenCorners(t, runtest.Corners(), text+where)
		if err != nil {
			t.Fatal(err)
		}
		hashes[runtest.Train(t, r, berth.TrainOptions{Dir: t.TempDir(), MaxSteps: 12}).WeightsSHA256] = true
	}
	if len(hashes) != 1 {
		t.Errorf("%d different weights", len(hashes))
	}
}

// A variable that replicas hold in ranges goes out and in whole.
func TestOwnLoopMovesRanges(t *testing.T) {
	text := strings.Replace(runtest.CornersConfig, "batch: 16", "batch: 16, microbatches: 4, reduction: tree", 1)
	r, err := runtest.OpenCorners(t, runtest.Corners(), text+"devices: cpu:2\npartition: {replicas: 2, shard: optimizer}\n")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := r.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir(), AssertResident: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for _, name := range []string{"layers.0.weight", "layers.1.bias"} {
		for range 2 {
			if err := tr.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w, err := tr.Fetch(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range w.Float32s() {
			w.Float32s()[i] = float32(i) / 8
		}
		if err := tr.Replace(t.Context(), name, w); err != nil {
			t.Fatal(err)
		}
		again, err := tr.Fetch(t.Context(), name)
		if err != nil || !slices.Equal(again.Float32s(), w.Float32s()) {
			t.Errorf("%s is %v, %v", name, again, err)
		}
	}
	if err := tr.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tr.CopyFrom(t.Context(), nil, "layers.1.bias"); !errors.Is(err, berth.ErrOptions) {
		t.Errorf("a copy from nothing: %v", err)
	}
	other, err := runtest.OpenCorners(t, runtest.Corners(), runtest.CornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	from, err := other.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if err := tr.CopyFrom(t.Context(), from); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"} {
		w, err1 := from.Fetch(t.Context(), name)
		v, err2 := tr.Fetch(t.Context(), name)
		if err := errors.Join(err1, err2); err != nil || !slices.Equal(v.Float32s(), w.Float32s()) {
			t.Errorf("%s was not copied: %v", name, err)
		}
	}
	few := tensor.New(tensor.WithBacking([]float32{1}))
	if err := tr.Replace(t.Context(), "layers.1.bias", few); !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), "layers.1.bias is f32[4], but the value is f32[]: give a value of the same type") {
		t.Errorf("%v", err)
	}
}

// A variable that was replaced behind the newest checkpoint is in the one of Finish.
func TestOwnLoopSavesReplacedVariables(t *testing.T) {
	r, err := runtest.OpenCorners(t, runtest.Corners(), runtest.CornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	o := berth.TrainOptions{Dir: t.TempDir()}
	tr, err := r.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	value := tensor.New(tensor.WithBacking([]float32{7, 6, 5, 4, 3, 2, 1, 0}))
	err = errors.Join(tr.Step(t.Context()), tr.Save(t.Context()), tr.Replace(t.Context(), "layers.0.bias", value))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	o.Resume = true
	again, err := r.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	got, err := again.Fetch(t.Context(), "layers.0.bias")
	if err != nil || !slices.Equal(got.Float32s(), value.Float32s()) {
		t.Errorf("%v, %v", got, err)
	}
}
