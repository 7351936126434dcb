package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// Training and evaluation on one runtime share weights: the sums of an evaluation
// are those of the weights at that moment of training.
func TestProgramsShareWeights(t *testing.T) {
	for devices := 1; devices <= 2; devices++ {
		alone, together := evaluated(t, devices, false), evaluated(t, devices, true)
		for i := range alone {
			if alone[i] != together[i] {
				t.Errorf("%d devices, after step %d: the loss is %v, of the same weights alone %v", devices, i, together[i], alone[i])
			}
		}
		if alone[0] == alone[1] {
			t.Error("a step changes nothing")
		}
	}
}

// loadEval loads the evaluation of 3 samples at a time, and fills its sums.
func loadEval(t *testing.T, r *rig) *executor.Program {
	t.Helper()
	g, err := models.Eval(r.spec, models.Size{Microbatch: 3})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := partition.New(g, partition.PlanOptions{Devices: specs(r.devs), Microbatches: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.rt.Load(executor.LoadOptions{Net: "eval", Full: plan})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{models.EvalLoss, models.EvalCorrect} {
		if err := r.rt.Residency.Fill(p.Var(name), make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestScheduleIsTheFullStepsOne(t *testing.T) {
	r := mustRig(t, gptJob(4), "cpu", 2, "gpipe", residency.ManagerOptions{})
	want, err := schedule.New(schedule.Spec{Name: "gpipe", Stages: 2, Microbatches: 4})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.prog.Schedule(); got.String() != want.String() {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	if err := r.run(short(t)); err != nil {
		t.Fatal(err)
	}
	for i, d := range r.rt.Busy() {
		if d <= 0 {
			t.Errorf("device %d was busy for %v", i, d)
		}
	}
}

// evaluated is the evaluation loss after each step of training, either in the
// midst of it, or each on a runtime of its own.
func evaluated(t *testing.T, devices int, together bool) (losses []float32) {
	t.Helper()
	const steps = 4
	r := mustRig(t, gptJob(2), "cpu", devices, "1f1b", residency.ManagerOptions{})
	eval := loadEval(t, r)
	for i := range steps {
		if !together {
			r = mustRig(t, gptJob(2), "cpu", devices, "1f1b", residency.ManagerOptions{})
			eval = loadEval(t, r)
		}
		for k := range i + 1 {
			if together && k < i {
				continue
			}
			step(t, r, r.prog, k, r.batch())
		}
		if err := r.rt.Residency.Fill(eval.Var(models.EvalLoss), make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			step(t, r, eval, 100+k, 3)
		}
		d, err := onHost(short(t), r.rt, eval.Var(models.EvalLoss))
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, shape.View[float32](d)[0])
	}
	return losses
}

func TestOptionsThatCannotBe(t *testing.T) {
	j := mlpJob(3)
	j.last = 4
	r := mustRig(t, j, "cpu", 2, "1f1b", residency.ManagerOptions{})
	for name, change := range map[string]func(o *executor.LoadOptions){
		"the same name":          func(o *executor.LoadOptions) { o.Net = "train" },
		"no constants":           func(o *executor.LoadOptions) { o.Constant = nil },
		"no last microbatch":     func(o *executor.LoadOptions) { o.LastMicrobatches = 0 },
		"many last microbatches": func(o *executor.LoadOptions) { o.LastMicrobatches = 4 },
	} {
		o, err := j.options(r.devs, "gpipe")
		if err != nil {
			t.Fatal(err)
		}
		o.Net = name
		change(&o)
		if _, err := r.rt.Load(o); !errors.Is(err, executor.ErrOptions) {
			t.Errorf("%s: got %v, want ErrOptions", name, err)
		}
	}
	for name, metas := range map[string][2]shape.Meta{
		"a scalar input": {shape.F32(3, 2), shape.F32()},
		"unequal rows":   {shape.F32(3, 2), shape.F32(2, 2)},
	} {
		b := graph.NewBuilder(name, 1)
		b.In(&graph.Layer{Type: "dense", Name: "l", Block: "l"})
		for i, m := range metas {
			b.Output(fmt.Sprint("out", i), ops.Relu(b, b.Input(fmt.Sprint("in", i), m)))
		}
		g, err := b.Graph()
		if err != nil {
			t.Fatal(err)
		}
		plan, err := partition.New(g, partition.PlanOptions{Devices: specs(r.devs), Microbatches: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.rt.Load(executor.LoadOptions{Net: name, Full: plan}); !errors.Is(err, executor.ErrOptions) {
			t.Errorf("%s: got %v, want ErrOptions", name, err)
		}
	}
	o, err := j.options(append(r.devs, r.devs...), "gpipe")
	if err != nil {
		t.Fatal(err)
	}
	o.Net = "elsewhere"
	if _, err := r.rt.Load(o); !errors.Is(err, executor.ErrOptions) {
		t.Errorf("more devices than there are: got %v, want ErrOptions", err)
	}
}

func TestCheckFiniteNamesTheLayer(t *testing.T) {
	for devices := 1; devices <= 3; devices++ {
		j := mlpJob(2)
		r := mustRig(t, j, "cpu", devices, "1f1b", residency.ManagerOptions{})
		o, err := j.options(r.devs, "1f1b")
		if err != nil {
			t.Fatal(err)
		}
		o.Net, o.CheckFinite = "check", true
		if o.Full, err = partition.Derive(o.Full, o.Full.Graph, partition.DeriveOptions{For: partition.Checked}); err != nil {
			t.Fatal(err)
		}
		p, err := r.rt.Load(o)
		if err != nil {
			t.Fatal(err)
		}
		step(t, r, p, 0, j.batch())
		if err := p.Drain(short(t)); err != nil {
			t.Errorf("finite weights: %v", err)
		}
		v := p.Graph().Find("b.weight")
		bad := make([]float32, v.Meta.Elems())
		bad[3] = float32(math.Inf(1))
		if err := r.rt.Residency.Fill(p.Var(v.Name), shape.Bytes(bad)); err != nil {
			t.Fatal(err)
		}
		b, err := r.feed(0, j.batch())
		if err != nil {
			t.Fatal(err)
		}
		// The failure may be there before the step's last task is queued.
		if _, err = p.Step(short(t), b); err == nil {
			err = p.Drain(short(t))
		}
		var finite *device.NonFiniteError
		var task *executor.TaskError
		if !errors.As(err, &finite) || !errors.As(err, &task) || finite.Node.Layer.Name != "b" || task.Microbatch != 0 {
			t.Errorf("%d devices: got %v, want layer b in microbatch 0", devices, err)
		}
	}
}

// TestUnload: programs that are closed leave nothing behind: no records, memory or
// executables, and the weights that another program has are still there.
func TestUnload(t *testing.T) {
	j := mlpJob(3)
	j.last = 4
	r := mustRig(t, j, "cpu", 2, "1f1b", residency.ManagerOptions{})
	step(t, r, r.prog, 0, j.batch())
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	want, err := r.vars(short(t))
	if err != nil {
		t.Fatal(err)
	}
	first := r.left()
	for n := range 100 {
		if err := r.passOnce(short(t)); err != nil {
			t.Fatal(err)
		}
		switch left := r.left(); {
		case n == 0: // it has copied variables to devices that had none
			first = left
		case !slices.Equal(left, first):
			t.Fatalf("after %d programs %v are left, after the first one %v", n+1, left, first)
		}
	}
	got, err := r.vars(short(t))
	if err != nil {
		t.Fatal(err)
	}
	if d := differ(want, got); d != "" {
		t.Error(d)
	}
	if err := errors.Join(r.prog.Close(), r.prog.Close()); err != nil {
		t.Fatal(err)
	}
	if left := r.left(); slices.Max(left) != 0 {
		t.Errorf("after the last program %v are left", left)
	}
	if _, err := r.prog.Step(short(t), executor.Batch{}); err == nil {
		t.Error("a closed program steps")
	}
}

// left counts records, bytes on the host, and bytes and executables of each device.
func (r *rig) left() []int64 {
	n := []int64{int64(r.rt.Residency.Tensors()), r.rt.Residency.HostMemory().Used}
	for _, d := range r.devs {
		s := d.Stats()
		n = append(n, s.Live, s.Executables)
	}
	return n
}

// passOnce loads the forward pass of the job, steps once and unloads it.
func (r *rig) passOnce(ctx context.Context) error {
	o, err := r.options(r.devs, "gpipe")
	if err != nil {
		return err
	}
	o.Net, o.Tail = "again", nil
	if o.Full, err = partition.Derive(o.Full, o.Full.Graph, partition.DeriveOptions{For: partition.Checked}); err != nil {
		return err
	}
	p, err := r.rt.Load(o)
	if err != nil {
		return err
	}
	b, err := r.feed(1, r.batch())
	if err == nil {
		_, err = p.Step(ctx, b)
	}
	return errors.Join(err, p.Close())
}

// TestFailedLoadLeavesNothing: a program that could not be loaded has freed all that
// it had by then.
func TestFailedLoadLeavesNothing(t *testing.T) {
	r := mustRig(t, mlpJob(2), "cpu", 1, "1f1b", residency.ManagerOptions{})
	o, err := mlpJob(2).options(r.devs, "gpipe")
	if err != nil {
		t.Fatal(err)
	}
	o.Net = "stopped"
	before := r.left()
	for n := 0; ; n++ {
		calls := 0
		o.Stop = func() error {
			if calls++; calls > n {
				return errors.New("stop")
			}
			return nil
		}
		p, err := r.rt.Load(o)
		if err == nil {
			err := p.Close()
			if left := r.left(); n == 0 || err != nil || !slices.Equal(left, before) {
				t.Errorf("after %d calls of Stop: %v, %v are left, before %v", n, err, left, before)
			}
			return
		}
		if left := r.left(); !slices.Equal(left, before) {
			t.Fatalf("stopped in call %d: %v are left, before %v", n, left, before)
		}
	}
}
