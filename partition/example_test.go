package partition_test

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/partition"
)

func Example() {
	b := graph.NewBuilder("two layers", 1)
	x := b.Input("input", shape.F32(4, 8))
	for i, name := range []string{"fc1", "fc2"} {
		restore := b.In(&graph.Layer{Index: i, Type: "dense", Name: name, Block: name})
		w := b.Var(name+".weight", shape.F32(8, 8), graph.Parameter, graph.Init{})
		x = ops.Relu(b, b.One(ops.MatMul{}, x, w))
		restore()
	}
	b.Output("prediction", x)
	g, err := b.Graph()
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := partition.New(g, partition.PlanOptions{
		Devices: []device.Spec{{ID: "cpu:0", MemoryBytes: 1 << 20}, {ID: "cpu:1", MemoryBytes: 1 << 20}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range p.Segments {
		fmt.Printf("%s on %s: %d nodes, %d inputs, %d outputs\n", s.Name, p.Stages[s.Stage].Blocks, len(s.First.Graph.Nodes), len(s.First.In), len(s.First.Out))
	}
	for _, t := range p.Transfers {
		fmt.Printf("%s goes from stage %d to %d, %d bytes per %v\n", t.Value.Name, t.From, t.To, t.Bytes, t.Rate)
	}
	// Output:
	// s0.F on [fc1]: 2 nodes, 2 inputs, 1 outputs
	// s1.F on [fc2]: 2 nodes, 2 inputs, 1 outputs
	// fc1.relu goes from stage 0 to 1, 128 bytes per microbatch
}
