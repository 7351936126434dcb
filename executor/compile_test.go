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

// Loading takes no device memory: programs whose working memory would not fit
// together run one after the other.
func TestLoadTakesNoMemory(t *testing.T) {
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
		plenty := specs(r.devs) // this does not test planning
		plenty[0].MemoryBytes = 1 << 30
		plan, err := partition.New(g, partition.PlanOptions{Devices: plenty, Microbatches: 1})
		if err != nil {
			t.Fatal(err)
		}
		live := r.devs[0].Stats().Live
		p, err := r.rt.Load(executor.LoadOptions{Net: name, Full: plan})
		if err != nil {
			t.Fatal(err)
		}
		if now := r.devs[0].Stats().Live; now != live {
			t.Errorf("loading changed the live bytes from %d to %d", live, now)
		}
		return p
	}
	first, second := load("first", 1<<20), load("second", 3<<18) // temporaries of 4 and 3 MiB, inputs likewise
	in := &goBuffer{make([]byte, 4<<20)}
	for _, p := range []*executor.Program{first, second, first} {
		bytes := p.Inputs()[0].Meta.Bytes()
		if _, err := p.Step(t.Context(), executor.Batch{Samples: 1, Fields: []device.HostBuffer{&goBuffer{in.b[:bytes]}}}); err != nil {
			t.Fatal(err)
		}
		if err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
