package executor_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
	orders "github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// way is how a job is run; the weights must not depend on it.
type way struct {
	devices, threads int
	replicas         int // 0: the job's
	schedule         string
	stages           int    // 0: as many as the schedule wants
	order            string // a schedule's text, in place of a named one
	apart            bool   // phases are not merged
	recompute        partition.Recompute
	memory           int // percent of the peak that the plan is made for; 0: all it may want
	opByOp           bool
	beside           bool // segments are compiled while steps run
}

var plain = way{devices: 1, threads: 1, schedule: "gpipe", apart: true}

func (w way) trained(j job) (map[string][]byte, error) {
	devs, err := openDevices("cpu", w.devices, w.threads)
	if err != nil {
		return nil, err
	}
	j.apart, j.recompute, j.memory, j.replicas = w.apart, w.recompute, w.memory, max(w.replicas, j.replicas)
	j.stages, j.order, j.alone, j.beside = w.stages, w.order, w.opByOp, w.beside
	if w.order != "" {
		j.replicas = 1
	}
	return trained(j, devs, w.schedule, residency.ManagerOptions{})
}

func ways() (all []way) {
	for devices := 1; devices <= 4; devices++ {
		for i, s := range []string{"gpipe", "1f1b", "interleaved", "zb-h1"} {
			again := []partition.Recompute{partition.RecomputeNone, partition.RecomputeCheap, partition.RecomputeBlock}[len(all)%3]
			w := way{devices: devices, threads: 1 + i%2, schedule: s, recompute: again, memory: []int{0, 70, 40, 10}[(devices+i)%4], opByOp: (devices+i)%3 == 0}
			if devices != 3 && i > 0 {
				w.stages = 3 // of which some share a device, or which leave one idle
			}
			all = append(all, w)
		}
	}
	return all
}

// Every number of stages, thread count and schedule, for every number of
// microbatches and every remainder of the last batch. Without TEST_ALL, and under the race
// detector, each job takes an eighth of the ways.
func TestSameWeightsEveryWay(t *testing.T) {
	t.Parallel()
	jobs := []struct {
		name string
		make func(int) job
	}{{"mlp", mlpJob}, {"gpt", gptJob}, {"cnn", cnnJob}, {"loop", loopJob}}
	for i, x := range jobs {
		for m := 1; m <= 5; m++ {
			if !testall.Wanted() && m != 3 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", x.name, m), func(t *testing.T) {
				j := x.make(m)
				j.last = (m*7 + 1) % j.batch()
				want, err := plain.trained(j)
				if err != nil {
					t.Fatal(err)
				}
				for k, w := range ways() {
					if k%(2*len(jobs)) != i && !(testall.Wanted() && !testall.Race) {
						continue
					}
					got, err := w.trained(j)
					if err != nil {
						t.Fatalf("%+v: %v", w, err)
					}
					if d := differ(want, got); d != "" {
						t.Errorf("%+v: %s", w, d)
					}
				}
			})
		}
	}
}

func TestSameWeightsForEveryRemainder(t *testing.T) {
	t.Parallel()
	j := cnnJob(3)
	for j.last = range j.batch() {
		want, err := plain.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		got, err := way{devices: 3, threads: 1, schedule: "1f1b"}.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Errorf("last batch of %d: %s", j.last, d)
		}
	}
}

func TestSameWeightsForRandomJobs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		w := rapid.SampledFrom(ways()).Draw(t, "way")
		w.opByOp, w.beside = rapid.Bool().Draw(t, "op by op"), rapid.Bool().Draw(t, "compiled beside")
		if rapid.Bool().Draw(t, "any order") {
			w.stages, w.order = 0, drawOrder(t, rapid.IntRange(1, 3).Draw(t, "stages"), j.microbatches)
		}
		want, err := plain.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

// Ops that are pinned to any devices give the same bits, with replicas, in little memory, and op by op.
func TestSameWeightsWithPinnedOps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		w := rapid.SampledFrom(ways()).Draw(t, "way")
		w.opByOp, w.beside = rapid.Bool().Draw(t, "op by op"), rapid.Bool().Draw(t, "compiled beside")
		want, err := plain.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		j.drawPins(t, w.devices/max(1, min(j.replicas, w.devices, j.microbatches)))
		got, err := w.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Fatalf("%v: %s", j.pin, d)
		}
	})
}

// drawPins pins some of a job's ops to devices.
func (j *job) drawPins(t *rapid.T, devices int) {
	g, err := j.train(j.microbatch, j.batch())
	if err != nil {
		t.Fatal(err)
	}
	alone := aloneBlocks(g)
	j.pin = map[string]int{}
	for _, n := range g.Nodes {
		l := n.Layer
		if n.Phase == graph.Forward && l != nil && l.Iterations == 0 && alone[l.Block] && rapid.IntRange(0, 4).Draw(t, "pin") == 0 {
			j.pin[n.Out[0].Name] = rapid.IntRange(0, devices-1).Draw(t, "device")
		}
	}
}

// aloneBlocks are the blocks whose forward nodes follow each other. Others cannot be cut.
func aloneBlocks(g *graph.Graph) map[string]bool {
	var order []string
	for _, n := range g.Nodes {
		if n.Phase == graph.Forward && n.Layer != nil && (len(order) == 0 || order[len(order)-1] != n.Layer.Block) {
			order = append(order, n.Layer.Block)
		}
	}
	alone := map[string]bool{}
	for i, b := range order {
		alone[b] = true
		if first := slices.Index(order, b); first < i {
			for _, tangled := range order[first : i+1] {
				alone[tangled] = false
			}
		}
	}
	return alone
}

// drawOrder is the text of a schedule in which each action comes at any time when it
// can run, on any of two workers.
func drawOrder(t *rapid.T, stages, microbatches int) string {
	s := orders.Schedule{Name: "random", Stages: stages, Microbatches: microbatches, Replicas: 1, Rows: make([][]orders.Action, 2)}
	kinds := []orders.Kind{orders.Forward, orders.Backward, orders.Weights}
	if !rapid.Bool().Draw(t, "splits") {
		kinds = kinds[:2]
	}
	done := make([]map[orders.Kind]int, stages)
	for i := range done {
		done[i] = map[orders.Kind]int{}
		s.Workers = append(s.Workers, rapid.IntRange(0, 1).Draw(t, "worker"))
	}
	ready := func(stage int, k orders.Kind) bool {
		m := done[stage][k]
		switch {
		case m == microbatches:
			return false
		case k == orders.Forward:
			return stage == 0 || done[stage-1][k] > m
		case k == orders.Backward:
			return done[stage][orders.Forward] > m && (stage == stages-1 || done[stage+1][k] > m)
		}
		return done[stage][orders.Backward] > m
	}
	for left := stages * microbatches * len(kinds); left > 0; left-- {
		var can []orders.Action
		for stage := range stages {
			for _, k := range kinds {
				if ready(stage, k) {
					can = append(can, orders.Action{Stage: stage, Kind: k, Microbatch: done[stage][k]})
				}
			}
		}
		a := rapid.SampledFrom(can).Draw(t, "next")
		done[a.Stage][a.Kind]++
		s.Rows[s.Workers[a.Stage]] = append(s.Rows[s.Workers[a.Stage]], a)
	}
	for stage, w := range s.Workers {
		s.Rows[w] = append(s.Rows[w], orders.Action{Stage: stage, Kind: orders.Update})
	}
	return s.String()
}

// Devices of random sizes, from the floor to the peak of each.
func TestSameWeightsWithinAPlansLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		w := rapid.SampledFrom(ways()).Draw(t, "way")
		w.memory = 0
		want, err := plain.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.trainedWithin(j, func(peak int64) int64 { return rapid.Int64Range(64, peak).Draw(t, "limit") })
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

// trainedWithin trains on devices whose memory limit chooses, given the peak. A
// limit below the floor is raised to it.
func (w way) trainedWithin(j job, limit func(peak int64) int64) (map[string][]byte, error) {
	j, devs, err := w.within(j, limit)
	if err != nil {
		return nil, err
	}
	return trained(j, devs, w.schedule, residency.ManagerOptions{})
}

// within opens such devices for a job, and says how it is planned there.
func (w way) within(j job, limit func(peak int64) int64) (_ job, devs []device.Device, err error) {
	j.apart, j.recompute, j.estimated, j.stages = w.apart, w.recompute, true, w.stages
	if devs, err = openDevices("cpu", w.devices, w.threads); err != nil {
		return j, nil, err
	}
	free, err := j.plan(devs, w.schedule)
	if err = errors.Join(err, closeAll(devs)); err != nil {
		return j, nil, err
	}
	each := make([]device.Share, len(devs))
	for i, f := range free.Full.Memory {
		each[i] = device.Share{Threads: w.threads, MemoryBytes: limit(max(64, f.Peak))}
	}
	for {
		if devs, err = device.Open("cpu", device.OpenOptions{Count: w.devices, Each: each}); err != nil {
			return j, nil, err
		}
		_, err := j.plan(devs, w.schedule)
		var small *partition.MemoryError
		if !errors.As(err, &small) {
			return j, devs, nil // who trains reports other errors
		}
		each[small.Device].MemoryBytes = small.Floor
		if err := closeAll(devs); err != nil {
			return j, nil, err
		}
	}
}

func closeAll(devs []device.Device) error {
	var errs []error
	for _, d := range devs {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// Training in float64 by the plain kernels gives nearly the same.
func TestWeightsAgreeWithTheReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := drawJobOf(t, mlpJob, gptJob, cnnJob) // of a broad one, sums of float32 differ by more
		if j.optim.Name == "lion" {               // the sign of a rounding error is a whole step
			j.optim.Name = "nesterov"
		}
		w := rapid.SampledFrom(ways()).Draw(t, "way")
		got, err := w.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		want, err := j.reference()
		if err != nil {
			t.Fatal(err)
		}
		for name, x := range want {
			if x.Meta.DType == shape.Int32 {
				continue
			}
			for i, f := range shape.View[float32](got[name]) {
				if diff := math.Abs(float64(f) - x.F[i]); !(diff <= 2e-4*(1+math.Abs(x.F[i]))) {
					t.Fatalf("%s[%d] is %v, the reference has %v", name, i, f, x.F[i])
				}
			}
		}
	})
}

// state is the contents of variables by name, in float64.
type state map[string]ref.Array

// reference trains an epoch as the graph says, node by node.
func (j job) reference() (state, error) {
	vars := state{}
	for i, samples := range j.epoch() {
		size, batch := j.microbatch, samples
		whole, err := j.train(size, batch)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			for _, v := range whole.Vars {
				vars[v.Name] = firstContents(v)
			}
		}
		last := whole
		if r := samples % size; r > 0 {
			if last, err = j.train(r, batch); err != nil {
				return nil, err
			}
		}
		if err := j.referenceStep(vars, whole, last, i, samples); err != nil {
			return nil, err
		}
	}
	return vars, nil
}

// referenceStep takes one step: last is the graph of its last microbatch, whole
// that of the others.
func (j job) referenceStep(vars state, whole, last *graph.Graph, number, samples int) error {
	sums := state{}
	for first := 0; first < samples; first += j.microbatch {
		g, end := whole, first+j.microbatch >= samples
		if end {
			g = last
		}
		feed := map[*graph.Value]ref.Array{}
		for _, v := range g.Vars {
			feed[v] = vars[v.Name]
		}
		for _, v := range g.Inputs {
			if v.PerMicrobatch {
				feed[v] = ref.Array{Meta: v.Meta, I: []int32{int32(first)}}
				continue
			}
			feed[v] = part(v, j.rows(v, number, samples), first)
		}
		vals, err := ref.Eval(g, feed)
		if err != nil {
			return err
		}
		for _, a := range g.Accums {
			x := vals[a.Part]
			if s, ok := sums[a.Sum.Name]; ok {
				out, err := ref.Run(a.Add, []ref.Array{s, x})
				if err != nil {
					return err
				}
				x = out[0]
			}
			sums[a.Sum.Name] = x
		}
		if !end {
			continue
		}
		for _, a := range g.Accums {
			feed[a.Sum] = sums[a.Sum.Name]
		}
		if vals, err = ref.Eval(g, feed); err != nil {
			return err
		}
		for _, a := range g.Assigns {
			vars[a.Var.Name] = vals[a.New]
		}
	}
	return nil
}

// part is a microbatch's rows, from a sample on.
func part(v *graph.Value, rows []byte, first int) ref.Array {
	n, per := v.Meta.Elems(), v.Meta.Elems()/v.Meta.Shape[0]
	if v.Meta.DType == shape.Int32 {
		return ref.Array{Meta: v.Meta, I: shape.View[int32](rows)[first*per : first*per+n]}
	}
	return widened(v.Meta, shape.View[float32](rows)[first*per:first*per+n])
}

func widened(m shape.Meta, x []float32) ref.Array {
	a := ref.New(m)
	for i, f := range x {
		a.F[i] = float64(f)
	}
	return a
}

func firstContents(v *graph.Value) ref.Array {
	if v.Meta.DType == shape.Int32 {
		return ref.New(v.Meta)
	}
	x := make([]float32, v.Meta.Elems())
	models.Fill(v, 11, shape.Bytes(x))
	return widened(v.Meta, x)
}
