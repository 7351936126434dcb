package executor_test

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
)

// A plan of two stages on two devices answers a batch of two microbatches.
func Example() {
	if err := answer(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// schedule forward stages 2 microbatches 2
	// 0: 0F0 0F1 0U  .
	// 1: .   1F0 1F1 1U
	// step 1, the second sample: [4]
}

func answer(ctx context.Context) error {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 2, Threads: 2, MemoryBytes: 1 << 20})
	if err != nil {
		return err
	}
	defer devs[0].Close()
	defer devs[1].Close()
	g, err := twoLayers()
	if err != nil {
		return err
	}
	plan, err := partition.New(g, partition.PlanOptions{Devices: []device.Spec{devs[0].Spec(), devs[1].Spec()}, Microbatches: 2})
	if err != nil {
		return err
	}
	rt, err := executor.NewRuntime(devs, executor.RuntimeOptions{})
	if err != nil {
		return err
	}
	defer rt.Close()
	p, err := rt.Load(executor.LoadOptions{Net: "answer", Full: plan, Fetch: true})
	if err != nil {
		return err
	}
	fmt.Print(p.Schedule())
	return stepOnce(ctx, rt, p)
}

// twoLayers adds 1 twice to each sample.
func twoLayers() (*graph.Graph, error) {
	b := graph.NewBuilder("two layers", 1)
	x := b.Input("input", shape.F32(1, 1))
	for i, name := range []string{"one", "two"} {
		restore := b.In(&graph.Layer{Index: i, Type: "bias", Name: name, Block: name})
		x = b.One(ops.AddOp, x, b.Var(name+".bias", shape.F32(1, 1), graph.Parameter, graph.Init{}))
		restore()
	}
	b.Output("answer", x)
	return b.Graph()
}

// stepOnce fills the variables, steps, and pulls the last microbatch's answer
// back.
func stepOnce(ctx context.Context, rt *executor.Runtime, p *executor.Program) error {
	if err := p.Init(ctx, func(_ *graph.Value, dst []byte) error {
		copy(dst, shape.Bytes([]float32{1}))
		return nil
	}); err != nil {
		return err
	}
	rows, err := rt.Devices[0].AllocHost(8)
	if err != nil {
		return err
	}
	defer rows.Free()
	copy(rows.Bytes(), shape.Bytes([]float32{1, 2}))
	ticket, err := p.Step(ctx, executor.Batch{Samples: 2, Fields: []device.HostBuffer{rows}})
	if err != nil {
		return err
	}
	if err := p.Wait(ctx, ticket); err != nil {
		return err
	}
	got, err := p.Fetch(ctx) // all outputs
	if err != nil {
		return err
	}
	fmt.Printf("step %d, the second sample: %v\n", ticket, shape.View[float32](got["answer"]))
	return nil
}
