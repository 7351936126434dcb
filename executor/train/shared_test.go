package train_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor/train"
	"github.com/berth-ml/berth/internal/runtest"
)

// beside is an adapter beside a base that follows from the seed. The base has 64·1024 + 1024 + 1024·10 + 10 parameters.
const beside = `
name: beside
data: {source: digits, split: 0.2}
model:
  layers:
    - flatten
    - {type: dense, name: fc1, units: 1024, activation: relu}
    - {type: dense, name: fc2, units: 10}
train: {epochs: 1, batch: 16}
adapt: {lora: {rank: 2, alpha: 4, targets: [fc1]}}
`

// baseBytes is the device memory of its base: each tensor takes a multiple of 64 bytes.
const baseBytes = 4*(64*1024+1024+1024*10) + 64

// adapters are configs of the same base with other ranks.
func adapters(t *testing.T, set ...string) (list []*configs.Config) {
	for _, rank := range []int{2, 8} {
		list = append(list, runtest.Parsed(t, beside, append(set, fmt.Sprintf("adapt.lora.rank=%d", rank))...))
	}
	return list
}

// alone are the reports of trainings that have devices to themselves.
func alone(t *testing.T, list []*configs.Config) (reports []*berth.Report) {
	t.Helper()
	for _, c := range list {
		r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, runtest.Train(t, r, berth.TrainOptions{}))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return reports
}

// started is a training of a config on shared devices, and what it was told.
type started struct {
	*berth.Training
	run   *berth.Run
	notes []string
}

func start(t *testing.T, d *berth.Devices, c *configs.Config, o berth.TrainOptions) *started {
	t.Helper()
	s := &started{run: runtest.OpenOn(t, d, c)}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	o.AssertResident, o.Observer = true, &berth.Observer{Note: func(text string) { s.notes = append(s.notes, text) }}
	var err error
	if s.Training, err = s.run.Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return s
}

// finish takes the steps that are left, and closes the training.
func (s *started) finish(t *testing.T) *berth.Report {
	t.Helper()
	for s.More() {
		if err := s.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	rep, err := s.Finish(t.Context())
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return rep
}

// shares is the note of a training whose base others have.
func (s *started) shares() string {
	i := slices.IndexFunc(s.notes, func(text string) bool { return strings.Contains(text, "frozen weights") })
	if i < 0 {
		return ""
	}
	return s.notes[i]
}

// same compares a training on shared devices with one alone.
func same(t *testing.T, what string, got, want *berth.Report, copied bool) {
	t.Helper()
	in := want.Ledger.CopyInWeightBytes
	if !copied {
		in -= 4 * (64*1024 + 1024 + 1024*10 + 10)
	}
	d, alone := got.Devices[0], want.Devices[0]
	if got.WeightsSHA256 != want.WeightsSHA256 || got.Ledger.CopyInWeightBytes != in {
		t.Errorf("%s: weights %.12s and %.12s alone, %d bytes of weights copied in, expected %d", what, got.WeightsSHA256, want.WeightsSHA256, got.Ledger.CopyInWeightBytes, in)
	}
	if left := slices.ContainsFunc(got.Allowed, func(text string) bool { return strings.Contains(text, "as planned") }); left || got.Ledger.SpillBytes > 0 {
		t.Errorf("%s: tensors have left the device: %q", what, got.Allowed)
	}
	if d.PeakBytes != alone.PeakBytes || d.PlannedBytes != alone.PlannedBytes || d.SharedBytes != baseBytes || alone.SharedBytes != 0 {
		t.Errorf("%s: a peak of %d bytes, %d planned and %d shared; alone %d, %d and %d", what, d.PeakBytes, d.PlannedBytes, d.SharedBytes, alone.PeakBytes, alone.PlannedBytes, alone.SharedBytes)
	}
}

// TestTrainingsShareABase: two trainings by turns have the frozen weights on the device once, in a memory that has no room for two,
// and the weights that they have alone. The first one ends before the second, which keeps the base, and a third finds it. One that
// fails at its begin leaves it to the others.
func TestTrainingsShareABase(t *testing.T) {
	list := adapters(t)
	want := alone(t, list)
	own := func(i int) int64 { return want[i].Devices[0].PlannedBytes - baseBytes }
	d := runtest.OpenDevices(t, "cpu:1", baseBytes+own(0)+own(1))
	first := start(t, d, list[0], berth.TrainOptions{})
	if text := first.shares(); text != "" {
		t.Errorf("the first one shares: %s", text)
	}
	failed := runtest.OpenOn(t, d, list[1])
	if _, err := failed.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir(), Init: "nothing.safetensors"}); err == nil {
		t.Error("a training without its first weights has begun")
	}
	second := start(t, d, list[1], berth.TrainOptions{})
	if second.shares() != "the frozen weights are those of beside too, and are on the devices once: 300.1 KiB on cpu:0" {
		t.Errorf("the second one says %q", second.notes)
	}
	value, err := second.Fetch(t.Context(), "fc1.weight")
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Replace(t.Context(), "fc1.weight", value); !errors.Is(err, berth.ErrOptions) {
		t.Errorf("replacing a shared weight: %v", err)
	}
	if err := second.CopyFrom(t.Context(), first.Training); err == nil { // of other shapes
		t.Error("factors of other ranks are copied")
	}
	for range 3 {
		for _, s := range []*started{first, second} {
			if err := s.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	same(t, "the first", first.finish(t), want[0], true)
	third := start(t, d, list[0], berth.TrainOptions{})
	same(t, "the second", second.finish(t), want[1], false)
	same(t, "the third", third.finish(t), want[0], false)
	after := start(t, d, list[0], berth.TrainOptions{})
	if after.shares() != "" {
		t.Errorf("once all have ended: %s", after.shares())
	}
	same(t, "the next", after.finish(t), want[0], true)
}

// TestBasesApart: other weights, another storage and other devices are other bases.
func TestBasesApart(t *testing.T) {
	d := runtest.OpenDevices(t, "cpu:2", 8<<20)
	first := start(t, d, runtest.Parsed(t, beside), berth.TrainOptions{})
	defer first.finish(t)
	for _, set := range []string{"seed=9", "adapt.base=bf16", "partition.replicas=2"} {
		if s := start(t, d, runtest.Parsed(t, beside, "train.microbatches=2", "train.reduction=tree", set), berth.TrainOptions{}); s.shares() != "" {
			t.Errorf("%s: %s", set, s.shares())
		} else if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTrainingsShareAtOnce: trainings that begin at once fill the base once, and one that is cancelled in the
// middle of its begin hands it on.
func TestTrainingsShareAtOnce(t *testing.T) {
	list := adapters(t)
	want := alone(t, list)
	d := runtest.OpenDevices(t, "cpu:1", 64<<20)
	var group sync.WaitGroup
	for i := range 6 {
		run := runtest.OpenOn(t, d, list[i%2])
		ctx, cancel := context.WithCancel(t.Context())
		if i%3 == 2 {
			cancel()
		}
		defer cancel()
		group.Go(func() {
			rep, err := run.Train(ctx, berth.TrainOptions{Dir: t.TempDir()})
			if i%3 == 2 {
				if !errors.Is(err, context.Canceled) && !errors.Is(err, berth.ErrStopped) {
					t.Errorf("a cancelled training: %v", err)
				}
				return
			}
			if err != nil || rep.WeightsSHA256 != want[i%2].WeightsSHA256 {
				t.Errorf("training %d: %v", i, err)
			}
		})
	}
	group.Wait()
}

// TestBaseStandsAside: a suspended training leaves the base to the other one. When both stand, it gives way to a third that needs
// the room, and comes back; a resumed run finds it, too.
func TestBaseStandsAside(t *testing.T) {
	list := adapters(t)
	want := alone(t, list)
	d := runtest.OpenDevices(t, "cpu:1", 3<<20)
	dir := t.TempDir()
	stopped := runtest.OpenOn(t, d, list[0])
	if _, err := stopped.Train(t.Context(), berth.TrainOptions{Dir: dir, MaxSteps: 3}); err != nil {
		t.Fatal(err)
	}
	first := start(t, d, list[1], berth.TrainOptions{})
	if err := errors.Join(first.Step(t.Context()), first.run.Suspend(t.Context())); err != nil {
		t.Fatal(err)
	}
	second := start(t, d, list[0], berth.TrainOptions{Dir: dir, Resume: true})
	if second.shares() == "" {
		t.Errorf("the base of a suspended training is not found: %q", second.notes)
	}
	if err := errors.Join(second.Step(t.Context()), second.run.Suspend(t.Context())); err != nil {
		t.Fatal(err)
	}
	large := runtest.Parsed(t, strings.NewReplacer("units: 1024", "units: 2300", "adapt: {lora: {rank: 2, alpha: 4, targets: [fc1]}}", "").Replace(beside))
	runtest.Train(t, runtest.OpenOn(t, d, large), berth.TrainOptions{})
	if err := errors.Join(first.run.Continue(), second.run.Continue()); err != nil {
		t.Fatal(err)
	}
	for i, rep := range []*berth.Report{second.finish(t), first.finish(t)} {
		if rep.WeightsSHA256 != want[i].WeightsSHA256 {
			t.Errorf("training %d has other weights than alone", i)
		}
	}
}

// TestSharedBaseOnALostDevice: the loss of the device ends all trainings that have the base there, and closing them and the devices
// is no error. One on another device goes on, with a base of its own.
func TestSharedBaseOnALostDevice(t *testing.T) {
	list := adapters(t)
	want := alone(t, list)
	lost, err := fault.Parse("cpu:0 launch 40 lost")
	if err != nil {
		t.Fatal(err)
	}
	d, err := berth.OpenDevices(configs.Devices{Use: "cpu:2"}, berth.DevicesOptions{Faults: []fault.Fault{lost}})
	if err != nil {
		t.Fatal(err)
	}
	var all []*berth.Training
	var runs []*berth.Run
	for i, on := range []device.ID{"cpu:0", "cpu:1", "cpu:0"} {
		r, err := berth.Open(t.Context(), list[i/2], berth.OpenOptions{Devices: d, Use: []device.ID{on}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		with, bytes := s.Shares()
		if (len(with) > 0) != (i == 2) || bytes != baseBytes {
			t.Errorf("training %d shares %d bytes with %q", i, bytes, with)
		}
		all, runs = append(all, s), append(runs, r)
	}
	failed := make([]error, len(all))
	for more := true; more; {
		more = false
		for i, s := range all {
			if failed[i] == nil && s.More() {
				more, failed[i] = true, s.Step(t.Context())
			}
		}
	}
	for i, s := range all {
		rep, err := s.Finish(t.Context())
		if i == 1 {
			if err != nil || failed[i] != nil || rep.WeightsSHA256 != want[0].WeightsSHA256 {
				t.Errorf("on the other device: %v, %v", failed[i], err)
			}
		} else if !errors.Is(err, device.ErrLost) {
			t.Errorf("training %d: %v, %v", i, failed[i], err)
		}
		if err := errors.Join(s.Close(), runs[i].Close()); err != nil {
			t.Errorf("closing %d: %v", i, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestFilesOfOneBase: a base is the same from a file, from that one compressed, and after a resume.
func TestFilesOfOneBase(t *testing.T) {
	dir, c := t.TempDir(), runtest.Parsed(t, beside)
	plain := filepath.Join(dir, "base.safetensors")
	whole := runtest.Open(t, strings.Replace(beside, "adapt: {lora: {rank: 2, alpha: 4, targets: [fc1]}}", "", 1))
	runtest.Train(t, whole, berth.TrainOptions{Dir: filepath.Join(dir, "whole"), MaxSteps: 3})
	if _, err := berth.ExportSafetensors(t.Context(), berth.Weights{Dir: filepath.Join(dir, "whole")}, plain); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(b); errors.Join(err, z.Close(), os.WriteFile(plain+".gz", packed.Bytes(), 0o600)) != nil {
		t.Fatal(err)
	}
	want := runtest.Train(t, runtest.Open(t, beside), berth.TrainOptions{Init: plain})
	for _, files := range [][2]string{{plain, plain + ".gz"}, {plain + ".gz", plain}} {
		d, half := runtest.OpenDevices(t, "cpu:1", 16<<20), t.TempDir()
		stopped := start(t, d, c, berth.TrainOptions{Dir: half, Init: files[0], MaxSteps: 5})
		stopped.finish(t)
		first := start(t, d, c, berth.TrainOptions{Init: files[1]})
		second := start(t, d, c, berth.TrainOptions{Dir: half, Resume: true})
		if second.shares() == "" {
			t.Errorf("%v: %q", files, second.notes)
		}
		for _, s := range []*started{first, second} {
			if rep := s.finish(t); rep.WeightsSHA256 != want.WeightsSHA256 {
				t.Errorf("%v: other weights than alone", files)
			}
		}
	}
}

// TestShareOnTwoDevices: stages and replicas have a base together where their cuts are the same, also a base of bfloat16.
func TestShareOnTwoDevices(t *testing.T) {
	for _, more := range [][]string{{"partition.stages=2"}, {"partition.replicas=2", "adapt.base=bf16"}} {
		set := append([]string{"train.microbatches=2", "train.reduction=tree", "train.steps=8"}, more...)
		list := adapters(t, set...)
		d := runtest.OpenDevices(t, "cpu:2", 16<<20)
		first := start(t, d, list[0], berth.TrainOptions{})
		second := start(t, d, list[1], berth.TrainOptions{})
		if with, bytes := second.Shares(); len(with) != 1 || bytes < baseBytes/2 {
			t.Errorf("%v: %d bytes shared with %q", set, bytes, with)
		}
		for i, s := range []*started{first, second} {
			want := runtest.Train(t, runtest.Open(t, beside, append(set, "devices.use=cpu:2", fmt.Sprintf("adapt.lora.rank=%d", []int{2, 8}[i]))...), berth.TrainOptions{})
			got := s.finish(t)
			for k := range want.Devices {
				if x, y := got.Devices[k], want.Devices[k]; x.PeakBytes != y.PeakBytes || x.PlannedBytes != y.PlannedBytes {
					t.Errorf("%v on %s: a peak of %d bytes, %d planned; alone %d and %d", set, x.ID, x.PeakBytes, x.PlannedBytes, y.PeakBytes, y.PlannedBytes)
				}
			}
			if got.WeightsSHA256 != want.WeightsSHA256 {
				t.Errorf("%v: other weights than alone", set)
			}
		}
	}
}

// On devices that other runs use, too, stages keep their blocks: how long they take is not theirs alone.
func TestBlocksStayOnSharedDevices(t *testing.T) {
	c := runtest.Parsed(t, "digits")
	for _, d := range []*berth.Devices{nil, runtest.OpenDevices(t, "cpu:2", 0)} {
		r, err := train.Open(t.Context(), c, train.OpenOptions{Devices: d})
		if err != nil {
			t.Fatal(err)
		}
		if b := r.Session().Balance(); b.Stages != (d == nil) {
			t.Errorf("on shared devices %v, blocks move: %v", d != nil, b.Stages)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
