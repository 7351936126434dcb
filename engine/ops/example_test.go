package ops_test

import (
	"fmt"
	"log"
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// A layer reads like its formula. The reference kernels compute the graph.
func Example() {
	b := graph.NewBuilder("dense", 1)
	x := b.Input("x", shape.F32(1, 2))
	w := b.Input("w", shape.F32(2, 2))
	bias := b.Input("bias", shape.F32(2))
	y := ops.Relu(b, ops.Add(b, ops.MatMulOf(b, x, w, false, false), bias))
	b.Output("y", y)
	g, err := b.Graph()
	if err != nil {
		log.Fatal(err)
	}
	values, err := ref.Eval(g, map[*graph.Value]ref.Array{
		x:    ref.Floats([]float64{1, 2}, 1, 2),
		w:    ref.Floats([]float64{1, 2, 3, -4}, 2, 2),
		bias: ref.Floats([]float64{0.5, 0.5}, 2),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(y, values[y].F)
	// Output: y f32[1,2] [7.5 0]
}

// A loop doubles a number until it is no longer below a limit, at most 10 times. The limit is a value from outside of the loop,
// and the carry begins as a constant.
func ExampleWhile() {
	b := graph.NewBuilder("doubled", 1)
	limit := b.Input("limit", shape.F32())
	last := ops.While(b, 10, []*graph.Value{ops.Const(b, shape.F32(), 1)},
		func(b *graph.Builder, carry []*graph.Value) *graph.Value { return ops.Less(b, carry[0], limit) },
		func(b *graph.Builder, carry []*graph.Value) []*graph.Value {
			return []*graph.Value{ops.ScaleBy(b, carry[0], 2)}
		})
	b.Output("y", last[0])
	g, err := b.Graph()
	if err != nil {
		log.Fatal(err)
	}
	for _, x := range []float64{100, 1e9} {
		values, err := ref.Eval(g, map[*graph.Value]ref.Array{limit: ref.Floats([]float64{x})})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(values[last[0]].F)
	}
	// Output:
	// [128]
	// [1024]
}

// An op states its metadata rule and its cost.
func ExampleConv2D() {
	x, w := shape.F32(1, 3, 32, 32), shape.F32(16, 3, 5, 5)
	o := ops.Conv2D{Stride: 1, Pad: 2, Groups: 1}
	y, err := o.Infer([]shape.Meta{x, w})
	fmt.Println(y[0], err, o.Cost([]shape.Meta{x, w}, y).Flops)
	_, err = o.Infer([]shape.Meta{shape.F32(1, 4, 32, 32), w})
	fmt.Println(err)
	// Output:
	// f32[1,16,32,32] <nil> 2457600
	// input has 4 channels, weight expects 3 (3 in each of 1 groups)
}

// The rate is halved ten times over the run, in an init function: `schedule: halving` in
// a config.
func ExampleRegisterSchedule() {
	type keys struct {
		Times int `yaml:"times" min:"1" doc:"halvings"`
	}
	ops.RegisterSchedule(ops.ScheduleType[keys]{
		Name: "halving", Version: 1, Doc: "Halves the rate at equal intervals.", Defaults: keys{Times: 10},
		Rate: func(k keys, lr float64, step, steps int) float64 {
			return lr * math.Pow(0.5, float64(k.Times*step/max(1, steps)))
		},
	})
}
