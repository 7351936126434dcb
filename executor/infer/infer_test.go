package infer_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/berth-ml/berth/datasets"
	_ "github.com/berth-ml/berth/engine/device/cpu"    // registers itself
	_ "github.com/berth-ml/berth/engine/device/gpu/cl" // likewise
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency/ledger"
)

// The score of a part is that of its answers, whatever the batch and the cut.
func TestScoreIsOfTheAnswers(t *testing.T) {
	var want infer.Score
	for i, c := range []struct {
		devices    string
		microbatch int
	}{{"cpu", 479}, {"cpu:2", 479}, {"cpu", 100}} {
		r := smallrun.New(t, c.devices)
		m := infer.Model{Spec: r.Spec, Plan: r.Plan, Microbatch: c.microbatch}
		records := r.Runtime.Residency.Tensors()
		e, err := infer.NewEvaluator(t.Context(), r.Runtime, m, r.Data.Val)
		if err != nil {
			t.Fatal(err)
		}
		score, err := e.Run(t.Context())
		if err != nil || score.Accuracy == nil {
			t.Fatalf("%+v: %+v, %v", c, score, err)
		}
		p, err := infer.NewPredictor(t.Context(), r.Runtime, m, r.Data.Val)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := e.Run(t.Context()); err != nil || again.Loss != score.Loss {
			t.Errorf("%+v: a second evaluation gives %v, then %v, %v", c, score.Loss, again.Loss, err)
		}
		targets := r.Data.Val.Alloc(r.Data.Val.Len())
		if _, err := r.Data.Val.Read(datasets.Cursor{}, r.Data.Val.Len(), targets); err != nil {
			t.Fatal(err)
		}
		class := shape.View[int32](targets[1])
		loss, correct, n := 0.0, 0, 0
		err = p.Run(t.Context(), &infer.Progress{}, func(a infer.Answer) error {
			if a.Index != n || len(a.Values) != 10 || a.Last != 10 {
				t.Fatalf("answer %d is %+v", n, a)
			}
			best := 0
			for k, v := range a.Values {
				if v > a.Values[best] {
					best = k
				}
			}
			if best == int(class[n]) {
				correct++
			}
			loss -= math.Log(float64(a.Values[class[n]]))
			n++
			return nil
		})
		if err != nil || n != r.Data.Val.Len() {
			t.Fatalf("%+v: %d answers, %v", c, n, err)
		}
		if math.Abs(loss/float64(n)-score.Loss) > 1e-5 || math.Abs(float64(correct)/float64(n)-*score.Accuracy) > 1e-9 {
			t.Errorf("%+v: score %v, %v; of the answers %v, %v", c, score.Loss, *score.Accuracy, loss/float64(n), float64(correct)/float64(n))
		}
		if err := errors.Join(e.Close(), p.Close()); err != nil || r.Runtime.Residency.Tensors() != records {
			t.Errorf("%+v: closed with %v, %d records are left of %d", c, err, r.Runtime.Residency.Tensors(), records)
		}
		if i == 0 {
			want = score
		} else if math.Abs(score.Loss-want.Loss) > 1e-6 || *score.Accuracy != *want.Accuracy {
			t.Errorf("%+v: %v, %v, want %v, %v", c, score.Loss, *score.Accuracy, want.Loss, *want.Accuracy)
		}
	}
}

// Groups of devices, each with the whole model, give the bits of one device, and all of
// them work; so do the stages of a group, which are a pipeline where there is room.
func TestGroupsGiveTheBitsOfOneDevice(t *testing.T) {
	type result struct {
		score   infer.Score
		metrics map[string]float64
		values  []float32
	}
	run := func(devices string, groups int, room bool) (got result, batches [][]int) {
		r := smallrun.New(t, devices)
		m := infer.Model{Spec: r.Spec, Plan: r.Plan, Microbatch: 23}
		set := judged(t, &m, r.Data.Val.Len())
		if room {
			m.Room = func(*partition.Plan, int) bool { return true }
		}
		for _, d := range r.Devices {
			m.Devices = append(m.Devices, d.Spec())
		}
		if groups > 1 { // the run's plan has a stage on each device
			size := len(r.Devices) / groups
			m.Plan = planOf(t, r, size)
			for k := range groups {
				var on []int
				for _, s := range m.Plan.Stages {
					on = append(on, s.Device+k*size)
				}
				m.Groups = append(m.Groups, on)
			}
		}
		e, err := infer.NewEvaluator(t.Context(), r.Runtime, m, r.Data.Val)
		if err != nil {
			t.Fatal(err)
		}
		p, err := infer.NewPredictor(t.Context(), r.Runtime, m, r.Data.Val)
		if err != nil {
			t.Fatal(err)
		}
		if got.score, err = e.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got.metrics, err = set.Values(got.score.Collected); err != nil {
			t.Fatal(err)
		}
		err = p.Run(t.Context(), &infer.Progress{}, func(a infer.Answer) error {
			if a.Index*len(a.Values) != len(got.values) {
				t.Fatalf("answer %d after %d values", a.Index, len(got.values))
			}
			got.values = append(got.values, a.Values...)
			return nil
		})
		if err = errors.Join(err, e.Close(), p.Close()); err != nil {
			t.Fatal(err)
		}
		return got, [][]int{e.Batches(), p.Batches()}
	}
	want, _ := run("cpu", 1, false)
	for _, c := range []struct {
		devices string
		groups  int
		room    bool
	}{{"cpu:2", 2, false}, {"cpu:3", 3, false}, {"cpu:4", 2, false}, {"cpu:2", 1, true}, {"cpu:4", 2, true}} {
		got, batches := run(c.devices, c.groups, c.room)
		if got.score.Loss != want.score.Loss || *got.score.Accuracy != *want.score.Accuracy || !maps.Equal(got.metrics, want.metrics) || !slices.Equal(got.values, want.values) {
			t.Errorf("%+v: score %v, %v, want %v, %v; metrics %v, want %v; answers as on one device: %t",
				c, got.score.Loss, *got.score.Accuracy, want.score.Loss, *want.score.Accuracy, got.metrics, want.metrics, slices.Equal(got.values, want.values))
		}
		for _, list := range batches {
			if len(list) != c.groups || slices.Contains(list, 0) {
				t.Errorf("%+v: batches by group %v", c, list)
			}
		}
	}
}

// Sums and counts stay on their devices, and come out once for each program at the end of an evaluation. Those of
// more batches than there are slots come out each time that all are taken. The bits are those of one device.
func TestSumsStayOnTheirDevices(t *testing.T) {
	run := func(devices string, groups int) (got infer.Score, pulled int64, batches []int) {
		r := smallrun.New(t, devices)
		m := infer.Model{Spec: r.Spec, Plan: planOf(t, r, 1), Microbatch: 4}
		judged(t, &m, r.Data.Val.Len())
		m.Spec.Scores = false
		for k, d := range r.Devices {
			m.Devices = append(m.Devices, d.Spec())
			if groups > 1 {
				m.Groups = append(m.Groups, []int{k})
			}
		}
		e, err := infer.NewEvaluator(t.Context(), r.Runtime, m, r.Data.Val)
		if err != nil {
			t.Fatal(err)
		}
		before := r.Runtime.Residency.Ledger().Total(ledger.PullBack)
		if got, err = e.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		pulled = r.Runtime.Residency.Ledger().Total(ledger.PullBack).Count - before.Count
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		return got, pulled, e.Batches()
	}
	const numbers, sums = 4, 2 // loss and right answers are sums, the matrix and the ranks counts
	want, pulled, _ := run("cpu", 1)
	if pulled != numbers {
		t.Errorf("one device: %d pull-backs", pulled)
	}
	for _, slots := range []int{4096, 16, 7, 1} {
		restore := infer.SetMostSlots(slots)
		got, pulled, batches := run("cpu:3", 3)
		restore()
		expected := int64(0)
		for _, n := range batches {
			expected += numbers - sums + sums*int64((n+slots-1)/slots)
		}
		if got.Loss != want.Loss || *got.Accuracy != *want.Accuracy || !slices.EqualFunc(got.Collected.Matrix(), want.Collected.Matrix(), slices.Equal) || pulled != expected {
			t.Errorf("%d slots: %v, %v, want %v, %v; %d pull-backs after %v batches", slots, got.Loss, *got.Accuracy, want.Loss, *want.Accuracy, pulled, batches)
		}
	}
}

// An evaluation that begins again after the loss of a device counts the memory of its scores
// once more, on the runtime that follows.
func TestScoresAreHeldAgain(t *testing.T) {
	var peaks []int64
	for range 2 {
		r := smallrun.New(t, "cpu:2")
		m := infer.Model{Spec: r.Spec, Plan: planOf(t, r, 1), Microbatch: 23, Groups: [][]int{{0}, {1}}}
		for _, d := range r.Devices {
			m.Devices = append(m.Devices, d.Spec())
		}
		judged(t, &m, r.Data.Val.Len())
		e, err := infer.NewEvaluator(t.Context(), r.Runtime, m, r.Data.Val)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		peaks = append(peaks, r.Runtime.Residency.HostMemory().Peak)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if peaks[1] < peaks[0]*9/10 {
		t.Errorf("host memory has peaks of %d bytes", peaks)
	}
}

// judged has the evaluator of a model collect what all metrics need.
func judged(t *testing.T, m *infer.Model, samples int) metrics.Set {
	t.Helper()
	task, err := models.Task(m.Spec, samples, nil)
	if err != nil {
		t.Fatal(err)
	}
	names, err := metrics.All(task)
	if err != nil {
		t.Fatal(err)
	}
	set, err := metrics.Choose(task, names)
	if err != nil {
		t.Fatal(err)
	}
	m.Spec.Statistics, m.Spec.Scores = set.Statistics, set.Scores
	return set
}

// Metrics are those of the answers.
func TestMetricsAreOfTheAnswers(t *testing.T) {
	r := smallrun.New(t, "cpu")
	m := infer.Model{Spec: r.Spec, Plan: r.Plan, Microbatch: 100}
	set := judged(t, &m, r.Data.Val.Len())
	e, err := infer.NewEvaluator(t.Context(), r.Runtime, m, r.Data.Val)
	if err != nil {
		t.Fatal(err)
	}
	score, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := infer.NewPredictor(t.Context(), r.Runtime, m, r.Data.Val)
	if err != nil {
		t.Fatal(err)
	}
	targets := r.Data.Val.Alloc(r.Data.Val.Len())
	if _, err := r.Data.Val.Read(datasets.Cursor{}, r.Data.Val.Len(), targets); err != nil {
		t.Fatal(err)
	}
	class, n := shape.View[int32](targets[1]), 0
	var matrix [10][10]int64
	top := 0.0
	err = p.Run(t.Context(), &infer.Progress{}, func(a infer.Answer) error {
		best, before := 0, 0
		for k, v := range a.Values {
			if v > a.Values[best] {
				best = k
			}
			if own := a.Values[class[n]]; v > own || v == own && k < int(class[n]) {
				before++
			}
		}
		matrix[class[n]][best]++
		if before < 5 {
			top++
		}
		n++
		return nil
	})
	if err = errors.Join(err, e.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
	for i, row := range score.Collected.Matrix() {
		if !slices.Equal(row, matrix[i][:]) {
			t.Errorf("class %d is taken for %v, want %v", i, row, matrix[i])
		}
	}
	values, err := set.Values(score.Collected)
	if err != nil || values["top_5"] != top/float64(n) || values["accuracy"] != *score.Accuracy || !(values["auc"] > 0 && values["auc"] <= 1) {
		t.Errorf("metrics %v; top_5 should be %v", values, top/float64(n))
	}
}

// On groups of devices, a batch allocates nothing: twice as many allocate as much.
func TestGroupsAllocateNothingPerBatch(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	allocs := func(microbatch int) (evals, predictions float64) {
		m := infer.Model{Spec: r.Spec, Plan: planOf(t, r, 1), Microbatch: microbatch, Groups: [][]int{{0}, {1}}}
		for _, d := range r.Devices {
			m.Devices = append(m.Devices, d.Spec())
		}
		e, err := infer.NewEvaluator(t.Context(), r.Runtime, m, r.Data.Val)
		if err != nil {
			t.Fatal(err)
		}
		p, err := infer.NewPredictor(t.Context(), r.Runtime, m, r.Data.Val)
		if err != nil {
			t.Fatal(err)
		}
		evals = testing.AllocsPerRun(5, func() {
			if _, err := e.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		predictions = testing.AllocsPerRun(5, func() {
			if err := p.Run(t.Context(), &infer.Progress{}, func(infer.Answer) error { return nil }); err != nil {
				t.Fatal(err)
			}
		})
		if err := errors.Join(e.Close(), p.Close()); err != nil {
			t.Fatal(err)
		}
		return evals, predictions
	}
	fewEvals, fewPredictions := allocs(6)
	evals, predictions := allocs(3)
	if evals > fewEvals+6 || predictions > fewPredictions+6 { // of 60 batches more; the scheduler allocates now and then
		t.Errorf("60 batches allocate %v and %v times, 120 batches %v and %v times", fewEvals, fewPredictions, evals, predictions)
	}
}

// planOf cuts the model of a run for the first so many of its devices.
func planOf(t *testing.T, r *smallrun.Run, devices int) *partition.Plan {
	t.Helper()
	g, err := models.Eval(r.Spec, models.Size{Microbatch: 23})
	if err != nil {
		t.Fatal(err)
	}
	o := partition.PlanOptions{Microbatches: 1}
	for _, d := range r.Devices[:devices] {
		o.Devices = append(o.Devices, d.Spec())
	}
	p, err := partition.New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What ends an evaluation or a prediction is its error.
func TestInferenceEnds(t *testing.T) {
	r := smallrun.New(t, "cpu")
	m := infer.Model{Spec: r.Spec, Plan: r.Plan, Microbatch: 100}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := infer.NewEvaluator(over, r.Runtime, m, r.Data.Val); !errors.Is(err, context.Canceled) {
		t.Errorf("planning: %v", err)
	}
	e, err := infer.NewEvaluator(t.Context(), r.Runtime, m, r.Data.Val)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(over); !errors.Is(err, context.Canceled) {
		t.Errorf("evaluation: %v", err)
	}
	p, err := infer.NewPredictor(t.Context(), r.Runtime, m, r.Data.Val)
	if err != nil {
		t.Fatal(err)
	}
	failure, n := errors.New("enough"), 0
	err = p.Run(t.Context(), &infer.Progress{}, func(infer.Answer) error {
		if n++; n == 150 {
			return failure
		}
		return nil
	})
	if !errors.Is(err, failure) || n != 150 {
		t.Errorf("%d answers, %v", n, err)
	}
}

// TestInitAgain: weights that are read whenever the device needs them give the
// same loss, and the host keeps none of them.
func TestInitAgain(t *testing.T) {
	r := smallrun.New(t, "cpu")
	if err := r.Runtime.Close(); err != nil {
		t.Fatal(err)
	}
	backwards := slices.Clone(r.Plan.Graph.Vars)
	slices.Reverse(backwards)
	var losses []float64
	for name, c := range map[string]executor.Contents{
		"once":            {Write: r.First},
		"again":           {Write: r.First, Again: true},
		"in order":        {Write: r.First, Sequence: &tape{vars: backwards, write: r.First}},
		"in order, again": {Write: r.First, Sequence: &tape{vars: backwards, write: r.First}, Again: true},
		"some in order":   {Write: r.First, Sequence: &tape{vars: backwards[:3], write: r.First}},
	} {
		rt, err := executor.NewRuntime(r.Devices, executor.RuntimeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := infer.NewEvaluator(t.Context(), rt, infer.Model{Spec: r.Spec, Plan: r.Plan, Microbatch: 100}, r.Data.Val)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.InitFrom(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		s, err := e.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, s.Loss)
		if used := rt.Residency.HostMemory().Used; used > 256 {
			t.Errorf("%s: the host has %d bytes", name, used)
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(slices.Compact(losses)) > 1 {
		t.Errorf("losses %v", losses)
	}
}

// tape is variables in an order.
type tape struct {
	vars  []*graph.Value
	write func(v *graph.Value, dst []byte) error
	next  int
}

func (s *tape) Names() (names []string) {
	for _, v := range s.vars {
		names = append(names, v.Name)
	}
	return names
}

func (s *tape) Next(context.Context) (string, int64, error) {
	if s.next == len(s.vars) {
		return "", 0, io.EOF
	}
	s.next++
	return s.vars[s.next-1].Name, s.vars[s.next-1].Meta.Bytes(), nil
}

func (s *tape) Read(dst []byte) error { return s.write(s.vars[s.next-1], dst) }

func (s *tape) Rewind() error {
	s.next = 0
	return nil
}
