package train_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// measured are the fields of metrics.jsonl that differ from run to run.
var measured = []string{"samples_per_s", "train_s", "val_s", "time", "device_peak_bytes"}

// linesOf are the lines of a run's metrics without the fields that are measured.
func linesOf(t *testing.T, dir string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, rundir.MetricsName))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range measured {
			delete(fields, name)
		}
		b, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(b))
	}
	return lines
}

// boundariesOf are the steps of the metrics' lines of boundaries.
func boundariesOf(lines []string) (steps []int) {
	for _, line := range lines {
		var at struct {
			Step int
			Loss *float64
		}
		if json.Unmarshal([]byte(line), &at) == nil && at.Loss == nil {
			steps = append(steps, at.Step)
		}
	}
	return steps
}

// Boundaries change where results come out, and no weights. A run that is stopped
// anywhere and resumed has the same lines of metrics.
func TestIntervals(t *testing.T) {
	t.Parallel()
	epochs := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{})
	for _, c := range []struct {
		name       string
		set        []string
		boundaries []int
		same       bool // the weights are those of three epochs
	}{
		{"every 7 steps", []string{"train.boundary=7"}, []int{7, 14, 21, 28, 33}, true},
		{"a budget of steps", []string{"train.steps=25"}, []int{11, 22, 25}, false},
		{"every step, few checkpoints", []string{"train.boundary=1", "checkpoint.every=9"}, nil, true},
		{"longer than the run", []string{"train.boundary=1000"}, []int{33}, true},
		{"a budget of three epochs", []string{"train.steps=33", "train.boundary=10"}, []int{10, 20, 30, 33}, true},
	}[:testall.Or(2, 5)] {
		name := c.name
		dir := t.TempDir()
		set := append([]string{"train.log_every=0"}, c.set...)
		want := runtest.Train(t, runtest.Open(t, runtest.Everything, set...), berth.TrainOptions{Dir: dir, AssertResident: true})
		lines := linesOf(t, dir)
		if got := boundariesOf(lines); c.boundaries != nil && !slices.Equal(got, c.boundaries) {
			t.Errorf("%s: boundaries at %v, expected %v", name, got, c.boundaries)
		}
		if c.same != (want.WeightsSHA256 == epochs.WeightsSHA256) || c.same && !slices.Equal(want.Losses, epochs.Losses) {
			t.Errorf("%s: weights or losses as in three epochs: %v", name, !c.same)
		}
		for _, stop := range []int{8, 6, 7, 22}[:testall.Or(1, 4)] {
			dir := t.TempDir()
			runtest.Train(t, runtest.Open(t, runtest.Everything, set...), berth.TrainOptions{Dir: dir, MaxSteps: stop})
			got := runtest.Train(t, runtest.Open(t, runtest.Everything, append(set, "devices=cpu:2")...), berth.TrainOptions{Dir: dir, Resume: true})
			if got.WeightsSHA256 != want.WeightsSHA256 || *got.Final.ValLoss != *want.Final.ValLoss {
				t.Errorf("%s, stopped after %d steps: other weights", name, stop)
			}
			if again := linesOf(t, dir); !slices.Equal(again, lines) {
				t.Errorf("%s, stopped after %d steps: other metrics\n%s\nexpected\n%s", name, stop, strings.Join(again, "\n"), strings.Join(lines, "\n"))
			}
		}
	}
}

// checkpoint.every decides alone about the checkpoints between an epoch's steps.
func TestCheckpointsOfIntervals(t *testing.T) {
	t.Parallel()
	for set, want := range map[string][]int{
		"train.boundary=12":                       {12, 24, 33},
		"train.boundary=12 checkpoint.every=10":   {10, 20, 30, 33},
		"train.boundary=epoch checkpoint.every=9": {9, 11, 18, 22, 27, 33},
		"train.boundary=12 checkpoint.every=1h":   {33},
		"checkpoint.every=1h":                     {11, 22, 33},
	} {
		var steps []int
		o := berth.TrainOptions{Observer: &berth.Observer{Saved: func(s berth.Saved) { steps = append(steps, s.Step) }}}
		runtest.Train(t, runtest.Open(t, runtest.Everything, strings.Fields(set)...), o)
		if !slices.Equal(steps, want) {
			t.Errorf("%s: checkpoints at %v, expected %v", set, steps, want)
		}
	}
}

// A time between checkpoints is kept, at the next step.
func TestCheckpointsByTime(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	var steps []int
	o := berth.TrainOptions{MaxSteps: 10, Observer: &berth.Observer{
		Saved: func(s berth.Saved) { steps = append(steps, s.Step) },
		Step: func(s berth.Step) {
			if s.Step == 4 {
				time.Sleep(1100 * time.Millisecond)
			}
		},
	}}
	r, began := runtest.Open(t, runtest.Everything, "train.boundary=100", "checkpoint.every=1s"), time.Now()
	runtest.Train(t, r, o)
	most := 1 + int(time.Since(began).Seconds()) // a slow machine may save once more
	if !slices.Contains(steps, 4) || steps[len(steps)-1] != 10 || len(steps) > most {
		t.Errorf("checkpoints at %v, expected them at 4 and at the end, %d at most", steps, most)
	}
}

// Patience counts boundaries, and the best checkpoint is one of a boundary.
func TestEarlyStoppingCountsIntervals(t *testing.T) {
	set := []string{"train.boundary=4", "early_stopping.patience=2", "early_stopping.min_delta=100"}
	var said string
	dir := t.TempDir()
	rep := runtest.Train(t, runtest.Open(t, runtest.Everything, set...), berth.TrainOptions{Dir: dir, Observer: &berth.Observer{Note: func(s string) { said += s + "\n" }}})
	if rep.Steps != 12 || !strings.Contains(said, "val_loss has not improved for 2 boundaries") {
		t.Errorf("stopped at step %d: %s", rep.Steps, said)
	}
	if st, err := rundir.StatusOf(dir); err != nil || st.State != rundir.Finished || st.Total != 33 {
		t.Errorf("status %+v, %v", st, err)
	}
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if best, _, err := db.Best(t.Context()); err != nil || best.Manifest.Step%4 != 0 {
		t.Errorf("the best checkpoint: %+v, %v", best, err)
	}
}

// A run that loses a device between two boundaries goes on, with the same lines.
func TestLostDeviceWithinAnInterval(t *testing.T) {
	set := []string{"train.boundary=4", "devices=cpu:2", "devices.on_device_loss=replan", "train.epochs=1"}
	calm, rough := t.TempDir(), t.TempDir()
	want := runtest.Train(t, runtest.Open(t, runtest.Everything, set...), berth.TrainOptions{Dir: calm})
	f, err := fault.Parse("cpu:1 launch 40 lost")
	if err != nil {
		t.Fatal(err)
	}
	got, err := runtest.Open(t, runtest.Everything, set...).Train(t.Context(), berth.TrainOptions{Dir: rough, Faults: []fault.Fault{f}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.DeviceLosses) != 1 || got.WeightsSHA256 != want.WeightsSHA256 {
		t.Errorf("lost %+v, other weights: %v", got.DeviceLosses, got.WeightsSHA256 != want.WeightsSHA256)
	}
	for _, l := range got.DeviceLosses {
		if l.Step <= l.Resumed || l.Again != l.Step-1-l.Resumed {
			t.Errorf("%d steps were taken again of those after %d and before %d, which failed", l.Again, l.Resumed, l.Step)
		}
	}
	if a, b := linesOf(t, rough), linesOf(t, calm); !slices.Equal(a, b) {
		t.Errorf("metrics\n%s\nexpected\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}

// Who suspends a run need not know that it goes on without a device just then.
func TestSuspendAtReplan(t *testing.T) {
	f, err := fault.Parse("cpu:1 launch 40 lost")
	if err != nil {
		t.Fatal(err)
	}
	run := runtest.Open(t, runtest.Everything, "train.boundary=4", "devices=cpu:2", "devices.on_device_loss=replan", "train.epochs=1")
	trained, stopped := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-trained:
				stopped <- nil
				return
			default:
			}
			if err := errors.Join(run.Suspend(t.Context()), run.Continue()); err != nil {
				stopped <- err
				return
			}
		}
	}()
	rep, err := run.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), Faults: []fault.Fault{f}})
	close(trained)
	if err := errors.Join(err, <-stopped); err != nil || len(rep.DeviceLosses) != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// A run that has lost its last device, or whose other devices have too little memory, is closed:
// it still tells what it was, and takes no more calls.
func TestNoDeviceTakesOver(t *testing.T) {
	const text = "data: digits\nmodel: {preset: mlp, hidden: [512, 8]}\ntrain: {batch: 8, epochs: 1}\n"
	f, err := fault.Parse("cpu:0 launch 5 lost")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ devices, text string }{
		{"devices: {use: cpu, on_device_loss: replan}\n", "no device is left to go on with"},
		{"partition: {stages: [[layers.0, layers.1], [layers.2]]}\ndevices: {each: [{use: cpu}, {use: cpu, memory: 64KiB}], on_device_loss: replan}\n", "the devices that are left cannot take over"},
	} {
		r := runtest.Open(t, text+c.devices)
		notes := r.Notes()
		var lost *berth.DeviceError
		if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), Faults: []fault.Fault{f}}); !errors.As(err, &lost) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.text, err)
		}
		if after := r.Notes(); !slices.Equal(after, notes) {
			t.Errorf("%s: notes %q, and %q before", c.text, after, notes)
		}
		if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir()}); !errors.Is(err, berth.ErrClosed) {
			t.Errorf("%s: another call: %v", c.text, err)
		}
	}
}

// Another boundary on resume is another run, unless that is allowed. Its means are
// of the steps since.
func TestAnotherInterval(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything, "train.boundary=8"), berth.TrainOptions{Dir: dir, MaxSteps: 10})
	_, err := runtest.Open(t, runtest.Everything, "train.boundary=6").Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true})
	if !errors.Is(err, berth.ErrChanged) || !strings.Contains(fmt.Sprint(err), "train.boundary was 8, is 6") {
		t.Fatal(err)
	}
	want := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{})
	got := runtest.Train(t, runtest.Open(t, runtest.Everything, "train.boundary=6"), berth.TrainOptions{Dir: dir, Resume: true, AllowChanged: true})
	if got.WeightsSHA256 != want.WeightsSHA256 || !slices.Equal(got.Losses, want.Losses) {
		t.Error("other weights or losses")
	}
	if steps := boundariesOf(linesOf(t, dir)); !slices.Equal(steps, []int{8, 12, 18, 24, 30, 33}) {
		t.Errorf("boundaries at %v", steps)
	}
}

// The metrics name learning rate and norm of each step, the same in every cut and
// whether the run was stopped or not. Recording norms changes no weight.
func TestMetricsOfSteps(t *testing.T) {
	t.Parallel()
	plain := runtest.Train(t, runtest.Open(t, runtest.Everything, "optimizer.clip_norm=0"), berth.TrainOptions{})
	all := map[bool][]string{} // by whether sums are trees
	for _, set := range [][]string{
		{"devices=cpu:1"}, {"devices=cpu:3"}, {"devices=cpu:1", "devices.memory=60%"},
		{"train.reduction=tree"},
		{"train.reduction=tree", "devices=cpu:2", "partition.replicas=2", "partition.shard=optimizer"},
	} {
		dir := t.TempDir()
		rep := runtest.Train(t, runtest.Open(t, runtest.Everything, append(set, "optimizer.clip_norm=0", "train.grad_norm=true")...), berth.TrainOptions{Dir: dir})
		lines := linesOf(t, dir)
		tree := set[0] == "train.reduction=tree"
		if !tree && rep.WeightsSHA256 != plain.WeightsSHA256 {
			t.Errorf("%v: the norm changes the weights", set)
		}
		if all[tree] == nil {
			all[tree] = lines
		}
		if !slices.Equal(lines, all[tree]) {
			t.Errorf("%v: other metrics\n%s", set, strings.Join(lines, "\n"))
		}
	}
	want := all[false]
	var x struct {
		LearningRate float64  `json:"learning_rate"`
		GradNorm     *float64 `json:"grad_norm"`
	}
	if err := json.Unmarshal([]byte(want[0]), &x); err != nil || x.GradNorm == nil || !(*x.GradNorm > 0.1) || x.LearningRate != 0.01/5 {
		t.Errorf("%s: %v", want[0], err)
	}
	var at struct {
		LearningRate float64  `json:"learning_rate"`
		GradNorm     *float64 `json:"grad_norm"`
		SamplesSeen  int64    `json:"samples_seen"`
		TokensSeen   int64    `json:"tokens_seen"`
	}
	last := want[len(want)-1]
	if err := json.Unmarshal([]byte(last), &at); err != nil || at.GradNorm == nil || at.SamplesSeen != 3*323 || at.TokensSeen != 0 || at.LearningRate > 1e-3 {
		t.Errorf("%s: %v", last, err)
	}
}

// A run whose checkpoint has no norms goes on with them, and leaves out those that
// are not known.
func TestNormsFromTheMiddle(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything, "optimizer.clip_norm=0"), berth.TrainOptions{Dir: dir, MaxSteps: 4})
	runtest.Train(t, runtest.Open(t, runtest.Everything, "optimizer.clip_norm=0", "train.grad_norm=true"), berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: 6})
	runtest.Train(t, runtest.Open(t, runtest.Everything, "optimizer.clip_norm=0", "train.grad_norm=true"), berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: 11})
	for i, line := range linesOf(t, dir) {
		var x struct {
			GradNorm *float64 `json:"grad_norm"`
		}
		if err := json.Unmarshal([]byte(line), &x); err != nil || (x.GradNorm != nil) != (i >= 4) || x.GradNorm != nil && *x.GradNorm <= 0 {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// Losses that are watched are means over the steps since the look before. They come out
// under a seal, since they were asked for, and change nothing.
func TestWatch(t *testing.T) {
	want := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{})
	for _, set := range [][]string{{"train.boundary=20"}, {"devices=cpu:2"}, {"devices.memory=40%"}} {
		var seen []berth.Step
		o := berth.TrainOptions{AssertResident: true, Observer: &berth.Observer{
			Watched: func(s berth.Step) { seen = append(seen, s) },
			Step:    func(berth.Step) { time.Sleep(4 * time.Millisecond) },
		}}
		r := runtest.Open(t, runtest.Everything, append(set, "train.watch=10ms")...)
		got := runtest.Train(t, r, o)
		if got.WeightsSHA256 != want.WeightsSHA256 || !slices.Equal(got.Losses, want.Losses) {
			t.Errorf("%v: other weights or losses", set)
		}
		if len(seen) < 3 || got.Ledger.ByReason["watch"] == 0 {
			t.Errorf("%v: saw %d losses, %v", set, len(seen), got.Ledger.ByReason)
		}
		several := false
		for i, s := range seen {
			from := s.Step - s.Over
			if i > 0 && from < seen[i-1].Step || s.Over < 1 {
				t.Errorf("%v: %+v after %+v", set, s, seen[max(0, i-1)])
			}
			several = several || s.Over > 1
			var sum float64
			samples := 0
			for step := from; step < s.Step; step++ { // the last step of an epoch has fewer samples
				n := min(32, r.Data.Train.Samples()-step%11*32)
				sum, samples = sum+want.Losses[step]*float64(n), samples+n
			}
			if mean := sum / float64(samples); math.Abs(s.Loss-mean) > 1e-9 || s.Epoch != (s.Step-1)/11 || s.InEpoch != (s.Step-1)%11+1 {
				t.Errorf("%v: saw %+v, expected loss %v", set, s, mean)
			}
		}
		if !several {
			t.Errorf("%v: each loss is of one step", set)
		}
	}
}

// One batch again and again: each step has the same samples, and the loss falls.
func TestOverfit(t *testing.T) {
	c, err := configs.Parse("test.yaml", []byte(runtest.Everything), configs.Overlay{Set: []string{"early_stopping.patience=1"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{Overfit: 60})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	rep := runtest.Train(t, r, berth.TrainOptions{})
	if rep.Steps != 60 || r.Data.Train.Len() != 32 || r.Data.Val != nil || rep.Checkpoints.Count != 1 {
		t.Errorf("%d steps of %d samples, %d checkpoints", rep.Steps, r.Data.Train.Len(), rep.Checkpoints.Count)
	}
	if first, last := rep.Losses[0], rep.Losses[59]; last > first/4 {
		t.Errorf("the loss is %v at first, %v at last", first, last)
	}
	short := func(r *berth.Run) string { return r.Data.Info.Fingerprint[:12] } // as errors show it
	if a, b := short(r), short(runtest.Open(t, runtest.Everything)); a == b {
		t.Errorf("one batch has the fingerprint %s, and so have all data", a)
	}
	whole := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{MaxSteps: 1})
	if whole.Losses[0] != rep.Losses[0] {
		t.Errorf("the batch has loss %v, the first of all data %v", rep.Losses[0], whole.Losses[0])
	}
}
