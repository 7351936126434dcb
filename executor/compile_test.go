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
)

// Pooled memory is given up for the memory that compiling a program needs.
func TestLoadTakesBackPooledMemory(t *testing.T) {
	r := mustRig(t, mlpJob(1), "cpu", 1, "1f1b", residency.ManagerOptions{}) // on 16 MiB
	load := func(name string, floats int) *executor.Program {
		t.Helper()
		b := graph.NewBuilder(name, 1)
		b.In(&graph.Layer{Type: "dense", Name: "l", Block: "l"})
		x := ops.Tanh(b, ops.Relu(b, b.Input("input", shape.F32(1, floats))))
		b.Output("sum", ops.Sum(b, x, false, 0, 1))
		b.Output("half", ops.SliceOf(b, x, []int{0, 0}, []int{1, floats / 2}))
		g, err := b.Graph()
		if err != nil {
			t.Fatal(err)
		}
		roomy := specs(r.devs) // this does not test planning
		roomy[0].MemoryBytes = 1 << 30
		plan, err := partition.New(g, partition.PlanOptions{Devices: roomy, Microbatches: 1})
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.rt.Load(executor.LoadOptions{Net: name, Full: plan})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := load("first", 1<<20)
	in := &goBuffer{make([]byte, 4<<20)}
	if _, err := p.Step(t.Context(), executor.Batch{Samples: 1, Fields: []device.HostBuffer{in}}); err != nil {
		t.Fatal(err)
	}
	if m := r.rt.Residency.Memory(0); m.Pooled < 4<<20 {
		t.Fatalf("%+v: the test needs pooled memory", m)
	}
	load("second", 5<<19) // temporaries of 10 MiB
	if m := r.rt.Residency.Memory(0); m.Pooled != 0 {
		t.Errorf("%d bytes are pooled still: the test does not need them back", m.Pooled)
	}
}
