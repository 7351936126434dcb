package executor_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

func TestFetchKeepsOutputsThatAreReadToo(t *testing.T) {
	j := mlpJob(1)
	b := graph.NewBuilder("outputs", 1)
	x := b.Input("input", shape.F32(3, 5))
	restore := b.In(&graph.Layer{Type: "dense", Name: "k", Block: "k"})
	y := ops.Relu(b, x)
	restore()
	b.In(&graph.Layer{Type: "dense", Name: "l", Block: "l"})
	z := ops.Relu(b, y)
	b.Output("middle", y)
	b.Output("end", z)
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	r := mustRig(t, j, "cpu", 2, "1f1b", residency.ManagerOptions{})
	plan, err := partition.New(g, partition.PlanOptions{Devices: specs(r.devs), Microbatches: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.rt.Load(executor.LoadOptions{Net: "fetch", Full: plan, Fetch: true})
	if err != nil {
		t.Fatal(err)
	}
	in, err := r.devs[0].AllocHost(60)
	if err != nil {
		t.Fatal(err)
	}
	r.bufs = append(r.bufs, in)
	shape.View[float32](in.Bytes())[4] = 2.5
	for range 3 {
		if _, err := p.Step(t.Context(), executor.Batch{Samples: 3, Fields: []device.HostBuffer{in}}); err != nil {
			t.Fatal(err)
		}
	}
	before := r.rt.Residency.Ledger().OfReason(ledger.Fetch)
	for _, names := range [][]string{nil, {y.Name, z.Name}, {z.Name}} {
		got, err := p.Fetch(short(t), names...)
		if err != nil {
			t.Fatal(err)
		}
		if want := cmp.Or(len(names), 2); len(got) != want {
			t.Errorf("%v are %d outputs, want %d", names, len(got), want)
		}
		for name, d := range got {
			if got := shape.View[float32](d)[4]; len(d) != 60 || got != 2.5 {
				t.Errorf("%s is %v of %d bytes, want 2.5 of 60", name, got, len(d))
			}
		}
	}
	if n := r.rt.Residency.Ledger().OfReason(ledger.Fetch); n.Count-before.Count < 2 {
		t.Errorf("%d pull-backs for two outputs", n.Count-before.Count)
	}
	if _, err := p.Fetch(short(t), "nothing"); err == nil || !strings.Contains(err.Error(), `no output "nothing"`) {
		t.Errorf("an unknown output: %v", err)
	}
	if _, err := r.prog.Fetch(short(t)); err == nil || !strings.Contains(err.Error(), "take a step first") {
		t.Errorf("before the first step: %v", err)
	}
	if _, err := p.Output(x.Name, 3, 0); err == nil {
		t.Error("an input is given as an output")
	}
	if _, err := r.prog.Output(y.Name, r.batch(), 0); err == nil {
		t.Error("a program that keeps nothing gives an output")
	}
}

// wideJob has a tied embedding that is large enough for updates in ranges, of which
// the last is smaller.
func wideJob(microbatches int) job {
	j := gptJob(microbatches)
	j.spec.Input, j.spec.Target = shape.I32(1), shape.I32(1)
	j.spec.Layers = models.GPT(models.GPTOptions{Vocab: 17000, Context: 1, Layers: 1, Heads: 2, Width: 8, Dropout: 0.2}, graph.Pos{})
	j.classes, j.last = 17000, 1
	return j
}

// Updates in ranges give the weights and the optimizer's state of whole ones, with
// every optimizer.
func TestUpdatesInRangesGiveTheSameBits(t *testing.T) {
	for _, optimizer := range []string{"momentum", "nesterov", "adam", "adamw", "lion"} {
		for _, microbatches := range []int{1, 3} {
			if usual := map[string]int{"momentum": 3, "nesterov": 1, "adam": 1, "adamw": 3, "lion": 3}[optimizer]; microbatches != usual && !testall.Wanted() {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", optimizer, microbatches), func(t *testing.T) {
				t.Parallel()
				j := wideJob(microbatches)
				j.optim.Name, j.optim.Keys = optimizer, nil
				want, err := plain.trained(j)
				if err != nil {
					t.Fatal(err)
				}
				most := 1
				if optimizer == "adamw" {
					most = 2
				}
				for devices := 1; devices <= most; devices++ {
					w := way{devices: devices, threads: 3 - devices, schedule: "1f1b", memory: 35}
					got, err := w.trained(j)
					if err != nil {
						t.Fatal(err)
					}
					if d := differ(want, got); d != "" {
						t.Errorf("%d devices: %.200s", devices, d)
					}
					if !inRanges(t, j, w) {
						t.Errorf("%d devices: no update is in ranges", devices)
					}
				}
			})
		}
	}
}

// inRanges reports whether a job that runs in a way has variables in ranges.
func inRanges(t *testing.T, j job, w way) bool {
	t.Helper()
	devs, err := openDevices("cpu", w.devices, w.threads)
	if err != nil {
		t.Fatal(err)
	}
	j.apart, j.recompute, j.memory = w.apart, w.recompute, w.memory
	o, err := j.options(devs, w.schedule)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devs {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	return slices.ContainsFunc(o.Full.Graph.Vars, func(v *graph.Value) bool { return v.Range != nil })
}

// Replicas that update ranges of a tensor give the weights of one device, with norms,
// tied weights, little memory and a last batch for fewer microbatches than replicas.
func TestReplicasUpdateInRanges(t *testing.T) {
	t.Parallel()
	broad := broadJob(4)
	broad.last = 2
	jobs := []job{broad}
	if testall.Wanted() {
		jobs = append(jobs, wideJob(4))
	}
	for _, j := range jobs {
		j.reduction, j.shard = partition.ReduceTree, partition.ShardOptimizer
		want, err := plain.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range []way{
			{devices: 4, threads: 1, replicas: 2, schedule: "zb-h1", memory: 40},
			{devices: 3, threads: 1, replicas: 3, schedule: "gpipe"},
			{devices: 2, threads: 1, replicas: 2, schedule: "1f1b"},
			{devices: 4, threads: 1, replicas: 4, schedule: "1f1b", memory: 10},
		} {
			if i > 1 && !testall.Wanted() {
				continue
			}
			got, err := w.trained(j)
			if err != nil {
				t.Fatalf("%+v: %v", w, err)
			}
			if d := differ(want, got); d != "" {
				t.Errorf("%+v: %.200s", w, d)
			}
			if j.replicas = w.replicas; !inRanges(t, j, w) {
				t.Errorf("%+v: no update is in ranges", w)
			}
		}
	}
}
