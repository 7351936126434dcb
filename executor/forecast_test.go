package executor_test

import (
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// A step moves the bytes that its plan says, also where some of them go to a file,
// and takes as much host memory for them. No more is live at once on the device than
// the plan's limit.
func TestStepsMoveWhatThePlanSays(t *testing.T) {
	testall.Long(t)
	jobs := map[string]job{"gpt": gptJob(4), "gpt, one microbatch": gptJob(1), "mlp": mlpJob(4), "cnn": cnnJob(4), "updates in ranges": wideJob(4)}
	for name, j := range jobs {
		j.reduction, j.microbatches = partition.ReduceTree, 7
		if name == "mlp" || testall.Wanted() {
			jobs[name+", by a tree"] = j
		}
	}
	compared := 0
	for name, j := range jobs {
		peak := forecastCase{job: j, limit: memory}.forecast(t).Peak
		for i, percent := range []int64{90, 75, 60, 45, 30} {
			if i%2 > 0 && !testall.Wanted() {
				continue
			}
			limit := peak * percent / 100
			f := forecastCase{job: j, limit: limit, steps: 24, file: percent == 60}.forecast(t)
			if f == nil {
				continue // below the floor
			}
			compared++
			t.Logf("%s in %d%% of %d bytes: %d loaded and %d spilled", name, percent, peak, f.Loaded, f.Spilled)
		}
	}
	if compared < 8 {
		t.Errorf("only %d runs were compared", compared)
	}
}

// So does an evaluation, whose weights come again and again.
func TestEvaluationsMoveWhatThePlanSays(t *testing.T) {
	for name, j := range map[string]job{"gpt": gptJob(1), "mlp": mlpJob(1), "cnn": cnnJob(1), "loop": loopJob(1)} {
		peak := forecastCase{job: j, limit: memory, evaluates: true}.forecast(t).Peak
		moved := int64(0)
		for _, percent := range []int64{80, 60, 40} {
			if f := (forecastCase{job: j, limit: peak * percent / 100, steps: 24, evaluates: true}).forecast(t); f != nil {
				moved += f.Moved()
			}
		}
		if moved == 0 {
			t.Errorf("%s: nothing moves", name)
		}
	}
}

// forecastCase is a run within a limit.
type forecastCase struct {
	job
	limit     int64 // bytes of the device
	steps     int   // 0: plan alone
	file      bool  // half of the host memory for what moves is in a file
	evaluates bool  // with one microbatch
}

// graph is the graph of a step.
func (c forecastCase) graph() (*graph.Graph, error) {
	if c.evaluates {
		return models.Eval(c.spec, models.Size{Microbatch: c.microbatch})
	}
	return c.train(c.microbatch, c.batch())
}

// forecast plans a job for a device, runs the steps, and compares the bytes that
// they moved with the plan. It is nil if there is too little memory.
func (c forecastCase) forecast(t *testing.T) *partition.Forecast {
	t.Helper()
	devs, err := openSized([]int64{c.limit}, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{job: c.job, devs: devs}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	g, err := c.graph()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := partition.New(g, partition.PlanOptions{
		Devices: []device.Spec{devs[0].Spec()}, Microbatches: c.microbatches, Schedule: "gpipe", Reduction: c.reduction,
		Estimate: func(d int, g *graph.Graph, o device.CompileOptions) (device.Memory, error) {
			return devs[d].Estimate(g, o)
		},
	})
	if errors.Is(err, partition.ErrMemory) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	f := &plan.Memory[0]
	if c.steps == 0 {
		return f
	}
	var o executor.RuntimeOptions
	if c.file {
		o.Manager = residency.ManagerOptions{HostBytes: max(1, f.Host/2), SpillDir: t.TempDir()}
	}
	if r.rt, err = executor.NewRuntime(devs, o); err != nil {
		t.Fatal(err)
	}
	if r.prog, err = r.rt.Load(executor.LoadOptions{Net: "train", Full: plan, Constant: c.constant, LastMicrobatches: 1}); err != nil {
		t.Fatal(err)
	}
	if err := r.fill(); err != nil {
		t.Fatal(err)
	}
	r.compare(t, f, c.steps)
	switch h := r.rt.Residency.HostMemory(); {
	case c.evaluates: // the weights stay on the host
	case !c.file && (h.Used < f.Host*98/100 || h.Used > f.Host*102/100+512): // constants too
		t.Errorf("in %d bytes, %d bytes of host memory are used; the plan says %d", f.Limit, h.Used, f.Host)
	case c.file && f.Host > 0 && h.Spilled == 0:
		t.Errorf("in %d bytes, nothing went to the file", f.Limit)
	}
	return f
}

// compare runs steps and compares the bytes that the second half of them moved.
func (r *rig) compare(t *testing.T, f *partition.Forecast, steps int) {
	t.Helper()
	l := r.rt.Residency.Ledger()
	var fed, in, out int64
	for i := range steps {
		if i == steps/2 {
			in, out = l.Total(ledger.CopyIn).Bytes, l.Total(ledger.Spill).Bytes
		}
		step(t, r, r.prog, i, r.batch())
	}
	for _, v := range r.prog.Inputs() {
		fed += v.Meta.Bytes() * int64(r.microbatches)
	}
	n := int64(steps - steps/2)
	in, out = (l.Total(ledger.CopyIn).Bytes-in)/n-fed, (l.Total(ledger.Spill).Bytes-out)/n
	if in != f.Loaded || out != f.Spilled {
		t.Errorf("in %d bytes, a step loads %d bytes and spills %d; the plan says %d and %d", f.Limit, in, out, f.Loaded, f.Spilled)
	}
	if live := r.devs[0].Stats().Peak; live > f.Limit {
		t.Errorf("%d bytes were live at once, the limit is %d", live, f.Limit)
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Error(err)
	}
}

// Devices take as much memory as their plan says, also where replicas divide the
// microbatches of a smaller last step otherwise.
func TestPeaksOfReplicas(t *testing.T) {
	for i, last := range []int{0, 7, 4, 1, 1} {
		j := mlpJob(4) // with dropout, which has a constant for each microbatch
		if i == 4 {
			j = broadJob(4)
			j.shard = partition.ShardOptimizer
		}
		j.reduction, j.replicas, j.last, j.estimated = partition.ReduceTree, 2, last, true
		r := mustRig(t, j, "cpu", 2, "1f1b", residency.ManagerOptions{})
		if err := r.run(short(t)); err != nil {
			t.Fatal(err)
		}
		plan, err := j.options(r.devs, "1f1b")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range plan.Full.Memory {
			if d := r.devs[f.Device]; d.Stats().Peak != f.Peak {
				t.Errorf("last batch of %d: %s takes %d bytes, the plan says %d", last, d.ID(), d.Stats().Peak, f.Peak)
			}
		}
	}
}
