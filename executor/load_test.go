package executor_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

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
		if o.Full, err = o.Full.Forward(); err != nil {
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
