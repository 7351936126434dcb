package kernels_test

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device/cpu/kernels"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// alone runs chunks one after another.
type alone struct{}

func (alone) Threads() int { return 1 }
func (alone) Do(chunks int, t work.Task) {
	for i := range chunks {
		t.Chunk(i)
	}
}

func ExampleNew() {
	m := shape.F32(3)
	x := &graph.Value{Meta: m}
	n := &graph.Node{Op: ops.Unary{Fn: "relu"}, In: []*graph.Value{x}, Out: []*graph.Value{{Meta: m}}}
	k, err := kernels.New(n, work.TargetOf(isa.Best()))
	if err != nil {
		fmt.Println(err)
		return
	}
	in, out := []float32{-1, 0, 2}, make([]float32, 3)
	err = k.Run(alone{}, &work.Args{
		In:  [][]byte{shape.Bytes(in)},
		Out: [][]byte{shape.Bytes(out)},
	})
	fmt.Println(out, err)
	// Output: [0 0 2] <nil>
}
