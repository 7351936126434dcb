package train_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/partition"
)

// rankConfig is a config for replicas; set are further settings.
func rankConfig(t *testing.T, set ...string) *configs.Config {
	t.Helper()
	const text = `data: {source: digits}
model: {preset: mlp, hidden: [16]}
train: {batch: 32, microbatches: 8, reduction: tree, epochs: 1}
devices: {threads: 1, memory: 64MiB}
`
	c, err := configs.Parse("ranks.yaml", []byte(text), configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPlanOfRanks: each rank has the same plan of the devices of all, with a replica for each rank, and the config that is
// kept does not tell of them.
func TestPlanOfRanks(t *testing.T) {
	alone, err := berth.Open(t.Context(), rankConfig(t), berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	prints, err := alone.Fingerprints()
	if err = errors.Join(err, alone.Close()); err != nil {
		t.Fatal(err)
	}
	for i, err := range runtest.Ranks(t, 3, 2, func(c *crew.Crew) error {
		r, err := berth.Open(t.Context(), rankConfig(t), berth.OpenOptions{Ranks: c})
		if err != nil {
			return err
		}
		now, err := r.Fingerprints()
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
		p := r.Plan()
		var names []string
		for i := range p.Memory {
			names = append(names, string(p.Specs()[p.Memory[i].Device].ID))
		}
		if want := []string{"0/cpu:0", "1/cpu:0", "2/cpu:0"}; p.Replicas() != 3 || !slices.Equal(names, want) {
			return fmt.Errorf("%d replicas on %v", p.Replicas(), names)
		}
		if fmt.Sprint(now) != fmt.Sprint(prints) {
			return fmt.Errorf("fingerprints %v, want %v", now, prints)
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

// TestPlanAsRanks: a process alone plans what ranks do, with the same devices, bytes, memory and step, and does not train.
func TestPlanAsRanks(t *testing.T) {
	set := []string{"model.hidden=[300,400]", "devices.memory=64MiB"}
	c := rankConfig(t, set...)
	alone, err := berth.Open(t.Context(), c, berth.OpenOptions{AsRanks: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := alone.Close(); err != nil {
			t.Error(err)
		}
	}()
	want, err := alone.StepTime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alone.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "the run is planned for 3 processes: start them") {
		t.Error(err)
	}
	for i, err := range runtest.Ranks(t, 3, 2, func(c *crew.Crew) error {
		r, err := berth.Open(t.Context(), rankConfig(t, set...), berth.OpenOptions{Ranks: c})
		if err != nil {
			return err
		}
		p, failed := r.StepTime(t.Context())
		if err := errors.Join(failed, r.Close()); err != nil {
			return err
		}
		if !slices.Equal(p.Ranks, want.Ranks) || p.Seconds != want.Seconds || want.Ranks[1].Sent == 0 {
			return fmt.Errorf("a step of %v s, %+v; as ranks %v s, %+v", p.Seconds, p.Ranks, want.Seconds, want.Ranks)
		}
		for i, f := range r.Plan().Memory {
			if x := alone.Plan().Memory[i]; f.Peak != x.Peak || r.Plan().Specs()[f.Device].ID != alone.Plan().Specs()[x.Device].ID {
				return fmt.Errorf("%+v; as ranks %+v", f, x)
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

// TestRanksSendParts: each rank sends its part of the sums and of the new parameters, and none joins a whole parameter for the
// others.
func TestRanksSendParts(t *testing.T) {
	for i, err := range runtest.Ranks(t, 2, 2, func(c *crew.Crew) error {
		r, err := berth.Open(t.Context(), rankConfig(t, "model.hidden=[4096]"), berth.OpenOptions{Ranks: c})
		if err != nil {
			return err
		}
		if err := r.Close(); err != nil {
			return err
		}
		p := r.Plan()
		x, err := p.Exchange(partition.StepOptions{Microbatches: p.Microbatches}, []int{0, 1})
		if err != nil {
			return err
		}
		var gradients int64
		for _, a := range p.Graph.Accums {
			gradients += a.Sum.Meta.Bytes()
		}
		for from, list := range x.Bytes() {
			if sent, most := list[1-from], gradients*21/20+1024; sent > most {
				return fmt.Errorf("rank %d sends %d bytes a step, and may send %d", from, sent, most)
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

// TestRanksRefuse: what does not go together is told once, with the rank, both values and a remedy.
func TestRanksRefuse(t *testing.T) {
	same := func(set ...string) func(int) []string { return func(int) []string { return set } }
	other := func(set string) func(int) []string {
		return func(rank int) []string {
			if rank == 2 {
				return []string{set}
			}
			return nil
		}
	}
	for _, x := range []struct {
		set  func(rank int) []string
		want string
	}{
		{same("train.reduction=order"), "--set train.reduction=order: these options cannot be used: train.reduction: 3 processes with a replica each work on parts of a step, which only a tree can sum: give --set train.reduction=tree (the weights are others), or let each have a part of the model by --set partition.stages=3 or --set partition=auto"},
		{same("train.microbatches=2"), "3 processes with a replica each share the microbatches of a step, and there are 2: start at most 2, or give a batch more microbatches (the weights are others)"},
		{same("devices.on_device_loss=replan"), "give --set devices.on_device_loss=stop"},
		{other("train.batch=64"), "train.batch differs: it is 32 on rank 0 (node0), and 64 on rank 2 (node2): give all ranks the same config, and the same flags for it"},
		{other("seed=7"), "seed differs: it is 1 on rank 0 (node0), and 7 on rank 2 (node2): "},
		{other("train.shuffle=false"), "train.shuffle differs: it is true on rank 0 (node0), and false on rank 2 (node2): "},
		{other("devices=null"), "3 processes have a replica each where all have the same devices, and these have cpu : cpu : null: let each have a part of the model by --set partition.stages=3 or --set partition=auto"},
		{func(rank int) []string {
			return append([]string{"partition.replicas=3"}, other("devices=null")(rank)...)
		}, "2/null:0 is of another kind than 0/cpu:0, which has its place in the first: give each the same kinds in the same order, or use stages (--set partition.replicas=1 --set partition.stages=3)"},
	} {
		errs := runtest.Ranks(t, 3, 2, func(c *crew.Crew) error {
			r, err := berth.Open(t.Context(), rankConfig(t, x.set(c.Rank())...), berth.OpenOptions{Ranks: c})
			if err == nil {
				err = errors.Join(errors.New("it was opened"), r.Close())
			}
			return err
		})
		for i, err := range errs {
			v, ok := errors.AsType[*crew.Verdict](err)
			if !ok || !strings.Contains(v.Text, x.want) || strings.Contains(v.Text, "\n") {
				t.Errorf("rank %d: %v, want %q", i, err, x.want)
			}
		}
	}
}

// TestRanksHaveTheSameData: files that differ are found by their fingerprint, and one that is missing by its name, on
// whatever path they are.
func TestRanksHaveTheSameData(t *testing.T) {
	const rows = "x,y\n1,2\n2,4\n3,6\n4,8\n5,10\n6,12\n"
	dir := t.TempDir()
	for name, text := range map[string]string{"a.csv": rows, "same.csv": rows, "other.csv": rows + "7,14\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	open := func(of string) []error {
		return runtest.Ranks(t, 2, 2, func(c *crew.Crew) error {
			path := filepath.Join(dir, "a.csv")
			if c.Rank() == 1 {
				path = filepath.Join(dir, of)
			}
			text := "data: {source: csv, path: " + path + ", label: y, task: regression}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {batch: 4, microbatches: 2, reduction: tree, epochs: 1}\ndevices: {memory: 16MiB}\n"
			cfg, err := configs.Parse("ranks.yaml", []byte(text), configs.Overlay{})
			if err != nil {
				return err
			}
			r, err := berth.Open(t.Context(), cfg, berth.OpenOptions{Ranks: c})
			if err != nil {
				return err
			}
			return r.Close()
		})
	}
	for of, want := range map[string]string{"same.csv": "", "other.csv": "the data's fingerprint differs: it is ", "none.csv": "rank 1 (node1): "} {
		for i, err := range open(of) {
			v, ok := errors.AsType[*crew.Verdict](err)
			if want == "" && err != nil || want != "" && (!ok || !strings.HasPrefix(v.Text, want) || v.Rank != 1) {
				t.Errorf("%s: rank %d: %v", of, i, err)
			}
		}
	}
}

// trained trains on so many ranks, in one run folder, and gives what rank 0 reports.
func trained(t *testing.T, size int, o berth.TrainOptions, set ...string) *berth.Report {
	t.Helper()
	return trainedOf(t, size, o, func() *configs.Config { return rankConfig(t, set...) })
}

// trainedOf is trained of any config.
func trainedOf(t *testing.T, size int, o berth.TrainOptions, config func() *configs.Config) *berth.Report {
	t.Helper()
	rep, errs := tried(t, size, o, config)
	for i, err := range errs {
		if err != nil {
			t.Fatalf("rank %d of %d: %v", i, size, err)
		}
	}
	return rep
}

// tried is trainedOf, and gives what becomes of each rank.
func tried(t *testing.T, size int, o berth.TrainOptions, config func() *configs.Config) (rep *berth.Report, errs []error) {
	t.Helper()
	config() // which may end the test
	errs = runtest.Ranks(t, size, 2, func(c *crew.Crew) error {
		own := o
		if c.Rank() > 0 {
			own.Dir = filepath.Join(t.TempDir(), "none") // which nobody makes
		}
		open := berth.OpenOptions{Ranks: c}
		if size == 1 {
			open.Ranks = nil
		}
		if o.Resume {
			open.Resume = own.Dir
		}
		r, err := berth.Open(t.Context(), config(), open)
		if err != nil {
			return err
		}
		got, err := r.Train(t.Context(), own)
		if c.Rank() == 0 {
			rep = got
		} else if _, none := os.Stat(own.Dir); none == nil {
			err = errors.Join(err, fmt.Errorf("it has made %s", own.Dir))
		}
		return errors.Join(err, r.Close())
	})
	return rep, errs
}

// TestTrainOnRanks: any number of ranks gives the weights, losses, metrics and checkpoints of one process, bit for bit.
func TestTrainOnRanks(t *testing.T) {
	for _, set := range [][]string{
		{"optimizer.name=adamw", "train.log_every=7"},
		{"optimizer.name=momentum", "optimizer.clip_norm=0.5", "partition.shard=none"},
		{"train.ema=0.9", "model.hidden=[300,400]", "data.split={val: 0.2, test: 0.1}", "checkpoint.keep.best=1"},
		{"data.split={val: 0.2, test: 0.1}", "train.metrics=all", "train.epochs=2", "checkpoint.staging=1MiB", "checkpoint.every=20"},
		{"train.batch=24", "train.epochs=2", "train.boundary=17", "early_stopping.metric=val_accuracy", "early_stopping.patience=1", "early_stopping.min_delta=0.5"},
	} {
		want := trained(t, 1, berth.TrainOptions{Dir: t.TempDir()}, set...)
		sizes := []int{3, 2, 4}
		if testing.Short() {
			sizes = sizes[:1]
		}
		for _, n := range sizes {
			got := trained(t, n, berth.TrainOptions{Dir: t.TempDir()}, set...)
			if got.WeightsSHA256 != want.WeightsSHA256 || !slices.Equal(got.Losses, want.Losses) || fmt.Sprint(*got.Final.ValLoss, *got.Final.ValAccuracy) != fmt.Sprint(*want.Final.ValLoss, *want.Final.ValAccuracy) {
				t.Errorf("%v: %d ranks: weights %.8s, want %.8s; validation %v, %v", set, n, got.WeightsSHA256, want.WeightsSHA256, *got.Final.ValLoss, *want.Final.ValLoss)
			}
			if fmt.Sprint(got.Final.Metrics) != fmt.Sprint(want.Final.Metrics) || (got.Test == nil) != (want.Test == nil) || got.Test != nil && (got.Test.Loss != want.Test.Loss || fmt.Sprint(got.Test.Metrics) != fmt.Sprint(want.Test.Metrics)) {
				t.Errorf("%v: %d ranks: metrics %v, want %v; test %+v, want %+v", set, n, got.Final.Metrics, want.Final.Metrics, got.Test, want.Test)
			}
			if got.Steps != want.Steps || got.Checkpoints.Count != want.Checkpoints.Count {
				t.Errorf("%v: %d ranks: %d steps and %d checkpoints, want %d and %d", set, n, got.Steps, got.Checkpoints.Count, want.Steps, want.Checkpoints.Count)
			}
			if got.Replicas != n || !got.Finished {
				t.Errorf("%d ranks: %+v", n, got)
			}
			checkRows(t, n, got)
		}
	}
}

// checkRows fails unless a report has a row for each of so many ranks, which has worked and sent.
func checkRows(t *testing.T, n int, rep *berth.Report) {
	t.Helper()
	if len(rep.Ranks) != n {
		t.Errorf("%d rows of %d ranks", len(rep.Ranks), n)
	}
	for i, r := range rep.Ranks {
		steps := r.WorkingS + r.WaitingS
		if r.Rank != i || r.Machine != fmt.Sprintf("node%d", i) || r.WorkingS <= 0 || r.SentBytes <= 0 || r.PeakBytes <= 0 || r.PeakBytes != rep.Devices[i].PeakBytes {
			t.Errorf("rank %d of %d: %+v", i, n, r)
		}
		for _, w := range r.WaitedFor {
			if w.Rank == i || w.Rank >= n || w.Seconds <= 0 {
				t.Errorf("rank %d of %d waited in %v s: %+v", i, n, steps, w)
			}
		}
	}
}

// TestResumeOnOtherRanks: a run goes on with any number of ranks, from checkpoints of any other.
func TestResumeOnOtherRanks(t *testing.T) {
	set := []string{"optimizer.name=adamw", "train.epochs=3"}
	want := trained(t, 1, berth.TrainOptions{Dir: t.TempDir()}, set...)
	dir := t.TempDir()
	o := berth.TrainOptions{Dir: dir}
	for i, n := range []int{4, 2, 3, 1, 2} {
		o.MaxSteps = 20 + 25*i
		if i == 4 {
			o.MaxSteps = 0
		}
		got := trained(t, n, o, set...)
		if o.Resume = true; i < 4 {
			continue
		}
		if got.WeightsSHA256 != want.WeightsSHA256 || !slices.Equal(got.Losses, want.Losses) {
			t.Errorf("weights %.8s, want %.8s", got.WeightsSHA256, want.WeightsSHA256)
		}
	}
}

// TestRankFails: a loss that is not finite names the step and what to do, on a rank where it was.
func TestRankFails(t *testing.T) {
	dir := t.TempDir()
	errs := runtest.Ranks(t, 2, 2, func(c *crew.Crew) error {
		r, err := berth.Open(t.Context(), rankConfig(t, "optimizer.name=sgd", "optimizer.lr=1e30"), berth.OpenOptions{Ranks: c})
		if err != nil {
			return err
		}
		_, err = r.Train(t.Context(), berth.TrainOptions{Dir: dir})
		c.Abort(1)
		_ = r.Close() // the failure is told
		return err
	})
	if !slices.ContainsFunc(errs, func(err error) bool { // the others may hear of it before they see theirs
		return errors.Is(err, berth.ErrNonFinite) && strings.HasPrefix(err.Error(), "step 2: ") && strings.Contains(err.Error(), "lower the learning rate or set optimizer.clip_norm")
	}) {
		t.Errorf("%v", errs)
	}
	for i, err := range errs {
		if err == nil {
			t.Errorf("rank %d ended well", i)
		}
	}
}

// TestStagesOnRanks: a model in stages over ranks gives the weights, losses and metrics of one process, whatever the schedule,
// the cut, the replicas and the limits on memory, and also where a rank has no part of it.
func TestStagesOnRanks(t *testing.T) {
	model := []string{"model.hidden=[24,20,16]", "optimizer.name=adamw", "optimizer.clip_norm=0.5", "data.split={val: 0.2, test: 0.1}", "train.metrics=all"}
	want := map[string]*berth.Report{}
	for _, reduction := range []string{"order", "tree"} {
		want[reduction] = trained(t, 1, berth.TrainOptions{Dir: t.TempDir()}, append([]string{"train.reduction=" + reduction}, model...)...)
	}
	for i, x := range []struct {
		ranks            int
		reduction        string
		stages, replicas int
		set              []string
	}{
		{2, "order", 2, 1, []string{"partition.stages=2"}},
		{2, "tree", 2, 1, []string{"partition.stages=2", "partition.schedule=gpipe"}},
		{2, "order", 4, 1, []string{"partition.stages=4", "partition.schedule=interleaved"}},
		{3, "order", 3, 1, []string{"partition.stages=3", "partition.schedule=zb-h1"}},
		{3, "order", 2, 1, []string{"partition.stages=2", "partition.pin={layers.0: 2/cpu:0, layers.3: 1/cpu:0}"}},
		{4, "tree", 2, 2, []string{"partition.stages=2"}},
		{3, "order", 1, 1, []string{"partition=auto"}},
		{2, "order", 2, 1, []string{"partition.stages=2", "devices.memory=70%"}},
		{2, "tree", 1, 2, []string{"devices.memory=80%", "devices.host_memory=16MiB"}},
		{2, "order", 4, 1, []string{"partition.stages=4", "devices=cpu:2", "devices.memory=80%"}},
	} {
		if testing.Short() && i%3 != 2 {
			continue
		}
		set := append(append([]string{"train.reduction=" + x.reduction}, model...), x.set...)
		got, w := trained(t, x.ranks, berth.TrainOptions{Dir: t.TempDir()}, set...), want[x.reduction]
		if got.WeightsSHA256 != w.WeightsSHA256 || !slices.Equal(got.Losses, w.Losses) || fmt.Sprint(got.Final.Metrics) != fmt.Sprint(w.Final.Metrics) || got.Test.Loss != w.Test.Loss {
			t.Errorf("%d ranks, %v: weights %.8s, want %.8s; losses %v, want %v; metrics %v, want %v; test %v, want %v", x.ranks, x.set, got.WeightsSHA256, w.WeightsSHA256, got.Losses, w.Losses, got.Final.Metrics, w.Final.Metrics, got.Test.Loss, w.Test.Loss)
		}
		if got.Stages != x.stages || got.Replicas != x.replicas {
			t.Errorf("%d ranks, %v: %d stages, %d replicas", x.ranks, x.set, got.Stages, got.Replicas)
		}
	}
}

// TestMeasuredTimesOfRanks: each rank times its own devices, also one without a part of the model, and all plan with the times
// of all: one whose times are longer gets less of the model. The weights stay those of one process.
func TestMeasuredTimesOfRanks(t *testing.T) {
	set := []string{"train.reduction=order", "model.hidden=[64,64,64,64,64,64]", "partition.stages=2", "partition.costs=measured"}
	want := trained(t, 1, berth.TrainOptions{Dir: t.TempDir()}, set[:2]...)
	dir := t.TempDir()
	file := func(rank int) string { return filepath.Join(dir, fmt.Sprintf("rank%d.json", rank)) }
	blocks := func(size int) (first []int) {
		first = make([]int, size)
		for i, err := range runtest.Ranks(t, size, 2, func(c *crew.Crew) error {
			r, err := berth.Open(t.Context(), rankConfig(t, set...), berth.OpenOptions{Ranks: c, Costs: file(c.Rank())})
			if err != nil {
				return err
			}
			x, err := r.Plan().Predict(nil)
			if err != nil || x.Measured < x.Count {
				err = errors.Join(err, fmt.Errorf("%d of %d times are measured", x.Measured, x.Count))
			}
			first[c.Rank()] = len(r.Plan().Stages[0].Blocks)
			return errors.Join(err, r.Close())
		}) {
			if err != nil {
				t.Errorf("rank %d of %d: %v", i, size, err)
			}
		}
		return first
	}
	blocks(3)
	even := blocks(2)
	text, err := os.ReadFile(file(1))
	if err != nil {
		t.Fatal(err)
	}
	slow := regexp.MustCompile(`"seconds": `).ReplaceAllString(string(text), "${0}1000") // of 1e-05, 10001e-05
	if err := os.WriteFile(file(1), []byte(slow), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := blocks(2); got[0] != got[1] || even[0] != even[1] || got[0] <= even[0] {
		t.Errorf("the first stage has %d blocks, where rank 1 takes longer %d", even, got)
	}
	if got := trained(t, 2, berth.TrainOptions{Dir: t.TempDir()}, set...); got.WeightsSHA256 != want.WeightsSHA256 {
		t.Errorf("weights %.8s, want %.8s", got.WeightsSHA256, want.WeightsSHA256)
	}
}

// TestTestPartOfRanks: where the loss of the test part is not finite, a run of one process warns. Ranks end with that, and none
// waits for others.
func TestTestPartOfRanks(t *testing.T) {
	dir := t.TempDir()
	rows, far := "x,y\n", "x,y\n1,2\n3e38,4\n2,4\n"
	for i := range 16 {
		rows += fmt.Sprintf("%d,%d\n", i, 2*i)
	}
	for name, text := range map[string]string{"a.csv": rows, "far.csv": far} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, ops := range []string{"none", "sync"} {
		text := "data: {source: csv, path: " + filepath.Join(dir, "a.csv") + ", label: y, task: regression, split: {test: " + filepath.Join(dir, "far.csv") + "}}\n" +
			"model: {preset: mlp, hidden: [4]}\ntrain: {batch: 4, microbatches: 4, reduction: tree, epochs: 1}\ndevices: {memory: 16MiB, op_by_op: " + ops + "}\n"
		for _, size := range []int{1, 2} {
			warned := make([]string, size)
			errs := runtest.Ranks(t, size, 2, func(c *crew.Crew) error {
				cfg, err := configs.Parse("ranks.yaml", []byte(text), configs.Overlay{})
				if err != nil {
					return err
				}
				o := berth.OpenOptions{Ranks: c}
				if size == 1 {
					o.Ranks = nil
				}
				r, err := berth.Open(t.Context(), cfg, o)
				if err != nil {
					return err
				}
				_, err = r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), Observer: &berth.Observer{Warn: func(text string) { warned[c.Rank()] += text }}})
				if err != nil {
					c.Abort(1)
				}
				return errors.Join(err, r.Close())
			})
			alone := size == 1 && errs[0] == nil && strings.Contains(warned[0], "not finite")
			ended := size == 2 && !slices.Contains(errs, nil) && slices.ContainsFunc(errs, func(err error) bool {
				return errors.Is(err, berth.ErrNonFinite) && strings.HasPrefix(err.Error(), "the test part has no result: ")
			})
			if !alone && !ended {
				t.Errorf("%s, %d ranks: %q, %v", ops, size, warned, errs)
			}
		}
	}
}

// TestEveryStateOnRanks: models with every kind of state, and with a table that the first and the last stage share, have the
// weights, losses and metrics of one process, also in a run that goes on with other ranks.
func TestEveryStateOnRanks(t *testing.T) {
	for name, text := range map[string]string{"everything": runtest.Everything, "tied": runtest.Tied(t)} {
		if testing.Short() && name == "everything" {
			continue
		}
		config := func(set ...string) func() *configs.Config {
			return func() *configs.Config { return runtest.Parsed(t, text, set...) }
		}
		want := trainedOf(t, 1, berth.TrainOptions{Dir: t.TempDir()}, config("devices.threads=1"))
		check := func(got *berth.Report, what ...any) {
			t.Helper()
			if got.WeightsSHA256 != want.WeightsSHA256 || !slices.Equal(got.Losses, want.Losses) || *got.Final.ValLoss != *want.Final.ValLoss {
				t.Errorf("%s, %v: weights %.8s, want %.8s; validation %v, want %v", name, what, got.WeightsSHA256, want.WeightsSHA256, *got.Final.ValLoss, *want.Final.ValLoss)
			}
		}
		for n, set := range map[int][]string{2: {"partition.stages=2", "devices.memory=75%"}, 3: {"partition.stages=3", "partition.schedule=gpipe"}} {
			set = append(set, "devices.threads=1")
			check(trainedOf(t, n, berth.TrainOptions{Dir: t.TempDir()}, config(set...)), n, set)
		}
		dir := t.TempDir()
		for i, n := range []int{2, 3, 1, 2} {
			o := berth.TrainOptions{Dir: dir, Resume: i > 0, MaxSteps: 5 + 7*i}
			if i == 3 {
				o.MaxSteps = 0
			}
			got := trainedOf(t, n, o, config("devices.threads=1", fmt.Sprintf("partition.stages=%d", n)))
			if i == 3 {
				check(got, "resumed")
			}
		}
	}
}

// TestInitOnRanks: rank 0 alone reads a file of weights, also a compressed one, and all have its contents. One that is damaged
// ends all.
func TestInitOnRanks(t *testing.T) {
	dir := t.TempDir()
	trained(t, 1, berth.TrainOptions{Dir: dir, MaxSteps: 3}, "optimizer.name=sgd")
	plain := exportOf(t, dir)
	whole, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	pack := func(name string, b []byte) string {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write(b)
		path := filepath.Join(dir, name)
		if err := errors.Join(err, z.Close(), os.WriteFile(path, packed.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	set := []string{"optimizer.name=adamw", "optimizer.freeze=[layers.0.*]"}
	want := trained(t, 1, berth.TrainOptions{Dir: t.TempDir(), Init: plain, MaxSteps: 9}, set...)
	for _, init := range []string{plain, pack("packed.safetensors.gz", whole)} {
		for n, more := range map[int][]string{2: {"devices.memory=80%"}, 3: {"partition.stages=3"}, 4: {"partition.stages=2"}} {
			got := trained(t, n, berth.TrainOptions{Dir: t.TempDir(), Init: init, MaxSteps: 9}, append(more, set...)...)
			if got.WeightsSHA256 != want.WeightsSHA256 || !slices.Equal(got.Losses, want.Losses) {
				t.Errorf("%s on %d ranks: weights %.8s, want %.8s", init, n, got.WeightsSHA256, want.WeightsSHA256)
			}
		}
	}
	bad := slices.Clone(whole)
	copy(bad[len(bad)-4:], []byte{0, 0, 0xc0, 0x7f}) // NaN
	damaged := filepath.Join(dir, "bad.safetensors")
	if err := os.WriteFile(damaged, bad, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, init := range []string{damaged, pack("bad.safetensors.gz", bad)} {
		_, errs := tried(t, 3, berth.TrainOptions{Dir: t.TempDir(), Init: init}, func() *configs.Config { return rankConfig(t, append(set, "partition.stages=3")...) })
		for i, err := range errs {
			if v, ok := errors.AsType[*crew.Verdict](err); !ok || strings.Count(v.Text, filepath.Base(init)) != 1 || strings.Contains(v.Text, "rank 0") {
				t.Errorf("%s: rank %d: %v", init, i, err)
			}
		}
	}
}

// TestRanksOnlyTrain: what ranks do not do is refused before anything is written, with what to do instead.
func TestRanksOnlyTrain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	fails, err := fault.Parse("0/cpu:0 launch 1 fail")
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range runtest.Ranks(t, 2, 2, func(c *crew.Crew) error {
		r, err := berth.Open(t.Context(), rankConfig(t, "partition.stages=2"), berth.OpenOptions{Ranks: c})
		if err != nil {
			return err
		}
		o := berth.TrainOptions{Dir: dir, Faults: []fault.Fault{fails}}
		_, faults := r.Train(t.Context(), o)
		o.Faults, o.Observer = nil, &berth.Observer{Inspect: func(context.Context, *berth.Inspection) error { return nil }}
		_, inspect := r.Train(t.Context(), o)
		_, start := r.Start(t.Context(), berth.TrainOptions{Dir: dir})
		_, eval := r.Eval(t.Context(), berth.Weights{Dir: dir})
		for want, err := range map[string]error{"leave Faults out": faults, "leave Inspect out": inspect, "call Train": start, "cancel the context": r.Suspend(t.Context()), "in one process": eval} {
			if !errors.Is(err, berth.ErrOptions) && !errors.As(err, new(*crew.Verdict)) || !strings.Contains(err.Error(), want) {
				t.Errorf("rank %d: %v, want %q", c.Rank(), err, want)
			}
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s was made", dir)
		}
		return r.Close()
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

// TestWatchOnRanks: rank 0 is shown the losses that another rank has, as they are.
func TestWatchOnRanks(t *testing.T) {
	var rep *berth.Report
	var shown []berth.Step
	dir := t.TempDir()
	for i, err := range runtest.Ranks(t, 3, 2, func(c *crew.Crew) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := berth.Open(ctx, rankConfig(t, "partition.stages=3", "model.hidden=[16,16]", "train.watch=10ms", "train.epochs=100000", "train.boundary=1000"), berth.OpenOptions{Ranks: c})
		if err != nil {
			return err
		}
		o := berth.TrainOptions{Dir: dir, Observer: &berth.Observer{Watched: func(s berth.Step) {
			if shown = append(shown, s); len(shown) == 3 {
				cancel()
			}
		}}}
		got, err := r.Train(ctx, o)
		if c.Rank() == 0 {
			rep = got
		}
		if !errors.Is(err, berth.ErrStopped) {
			c.Abort(1)
			return errors.Join(err, errors.New("it was not stopped"))
		}
		return r.Close()
	}) {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
	if len(shown) < 3 {
		t.Fatalf("%d looks at the losses", len(shown))
	}
	for _, s := range shown {
		sum, samples := 0.0, 0.0
		for step := s.Step - s.Over; step < s.Step; step++ {
			n := 32.0
			if step%45 == 44 { // an epoch's last
				n = 29
			}
			sum, samples = sum+n*rep.Losses[step], samples+n
		}
		if mean := sum / samples; s.Over > 1000 || math.Abs(s.Loss-mean) > 1e-9 {
			t.Errorf("step %d: loss %v over %d steps, want %v", s.Step, s.Loss, s.Over, sum/samples)
		}
	}
}
