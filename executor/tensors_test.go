package executor_test

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
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
	for _, name := range []string{y.Name, z.Name} {
		out, err := p.Output(name, 3, 0)
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.rt.Residency.EnsureHost(short(t), ledger.Fetch, out)
		if err != nil {
			t.Fatal(err)
		}
		if got := shape.View[float32](d)[4]; got != 2.5 {
			t.Errorf("%s is %v, want 2.5", name, got)
		}
	}
	if _, err := p.Output(x.Name, 3, 0); err == nil {
		t.Error("an input is given as an output")
	}
	if _, err := r.prog.Output(y.Name, r.batch(), 0); err == nil {
		t.Error("a program that keeps nothing gives an output")
	}
}
