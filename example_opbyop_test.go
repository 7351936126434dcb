package berth_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/eager"
)

// A weight of a run that trains on the same devices is halved by an op, and trained on.
func ExampleDevices_OpByOp() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "halved")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	devices, err := berth.OpenDevices(configs.Devices{Use: "cpu"}, berth.DevicesOptions{})
	if err != nil {
		log.Fatal(err)
	}
	c, err := devices.OpByOp(eager.ContextOptions{})
	if err != nil {
		log.Fatal(err)
	}
	cfg, err := configs.Load("digits", configs.Overlay{Set: []string{"train.epochs=1"}})
	if err != nil {
		log.Fatal(err)
	}
	run, err := berth.Open(ctx, cfg, berth.OpenOptions{Devices: devices})
	if err != nil {
		log.Fatal(err)
	}
	t, err := run.Start(ctx, berth.TrainOptions{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	for t.More() {
		if t.Steps() == 10 {
			before, err := t.Fetch(ctx, "layers.0.weight")
			if err != nil {
				log.Fatal(err)
			}
			w := c.One(ops.Affine{Scale: 0.5}, c.FromHost(before, ""))
			after, err := w.ToHost(ctx)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(w.Meta(), after.Float32s()[0] == before.Float32s()[0]/2)
			if err := errors.Join(w.Release(), t.Replace(ctx, "layers.0.weight", after)); err != nil {
				log.Fatal(err)
			}
		}
		if err := t.Step(ctx); err != nil {
			log.Fatal(err)
		}
	}
	report, err := t.Finish(ctx)
	if err := errors.Join(err, t.Close(), run.Close(), c.Close(), devices.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Steps, "steps")
	// Output:
	// f32[128,64] true
	// 45 steps
}

// A step of gradient descent, compiled as one op: the loss, its gradient and the update.
func ExampleCompile() {
	ctx := context.Background()
	devices, err := berth.OpenDevices(configs.Devices{Use: "cpu"}, berth.DevicesOptions{})
	if err != nil {
		log.Fatal(err)
	}
	c, err := devices.OpByOp(eager.ContextOptions{})
	if err != nil {
		log.Fatal(err)
	}
	loss := berth.Compile("loss", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		return []*graph.Value{b.One(ops.MSE{}, ops.MatMulOf(b, in[0], in[1], false, false), in[2])}
	})
	slope := loss.Gradients(1) // by in[1]
	step := berth.Compile("step", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		out := b.Apply(slope, in...)
		return []*graph.Value{out[0], ops.Sub(b, in[1], ops.ScaleBy(b, out[1], 0.1))}
	})
	x := c.FromBytes(shape.F32(2, 1), shape.Bytes([]float32{1, 2}), "")
	y := c.FromBytes(shape.F32(2, 1), shape.Bytes([]float32{3, 6}), "")
	w := c.One(ops.Fill{Meta: shape.F32(1, 1)})
	for range 3 {
		out := c.Execute(step, x.Ref(), w, y.Ref())
		sum, err := out[0].ToHost(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%.2f ", sum.Float32s()[0])
		if err := out[0].Release(); err != nil {
			log.Fatal(err)
		}
		w = out[1]
	}
	last, err := w.ToHost(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("w %.2f\n", last.Float32s()[0])
	if err := errors.Join(x.Release(), y.Release(), w.Release(), c.Close(), devices.Close()); err != nil {
		log.Fatal(err)
	}
	// Output: 45.00 0.00 0.00 w 3.00
}
