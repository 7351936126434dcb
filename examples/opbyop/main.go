// Opbyop trains a network on handwritten digits with neither a config nor a graph: each
// op is a call, and a tape gives the gradients. A compiled function counts right answers.
// Try it: go run ./examples/opbyop
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/eager"
)

const pixels, hidden, classes, batch, rate = 64, 128, 10, 32, 0.2

// right counts the right answers of the network: four ops, one launch.
var right = berth.Compile("right", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
	h := ops.Relu(b, ops.MatMulOf(b, in[0], in[2], false, false))
	return b.Apply(ops.Correct{}, ops.MatMulOf(b, h, in[3], false, false), in[1])
})

// train trains for so many epochs, and returns the share of right answers.
func train(ctx context.Context, c *berth.OpByOp, epochs int) (float32, error) {
	data, err := datasets.Open(ctx, datasets.Spec{Source: "digits", Seed: 1})
	if err != nil {
		return 0, err
	}
	numbers, r := make([]float32, hidden*(pixels+classes)), rand.New(rand.NewPCG(1, 1))
	for i := range numbers {
		numbers[i] = float32(0.1 * r.NormFloat64())
	}
	weights := []eager.Tensor{
		c.FromBytes(shape.F32(pixels, hidden), shape.Bytes(numbers[:hidden*pixels]), ""), // on the first device
		c.FromBytes(shape.F32(hidden, classes), shape.Bytes(numbers[hidden*pixels:]), ""),
	}
	room := data.Train.Alloc(data.Train.Len())
	feed := func(p *datasets.Part, at datasets.Cursor, n int) (x, y eager.Tensor) {
		n, _ = p.Read(at, n, room) // fails only for files and functions
		return c.FromBytes(shape.F32(n, pixels), room[0][:4*n*pixels], ""), c.FromBytes(shape.I32(n), room[1][:4*n], "")
	}
	for at := (datasets.Cursor{}); at.Epoch < epochs; at = data.Train.Next(at, batch) {
		x, y := feed(data.Train, at, batch)
		tape := c.NewTape()
		h := tape.One(ops.Unary{Fn: "relu"}, tape.One(ops.MatMul{}, x, weights[0].Ref()))
		loss := tape.One(ops.CrossEntropy{}, tape.One(ops.MatMul{}, h, weights[1].Ref()), y)
		slopes, err := tape.Gradients(loss, weights...)
		if err := errors.Join(err, loss.Release(), tape.Close()); err != nil {
			return 0, err
		}
		for i, slope := range slopes { // in the weights' memory, which nothing else reads any more
			weights[i] = c.One(ops.Binary{Fn: "sub"}, weights[i], c.One(ops.Affine{Scale: rate / batch}, slope))
		}
	}
	x, y := feed(data.Val, datasets.Cursor{}, data.Val.Len())
	hits := c.One(right, x, y, weights[0], weights[1])
	count, err := hits.ToHost(ctx) // the only wait
	if err != nil {
		return 0, err
	}
	return count.Float32s()[0] / float32(data.Val.Len()), hits.Release()
}

func main() {
	devices, err := berth.OpenDevices(configs.Devices{Use: "cpu"}, berth.DevicesOptions{})
	if err != nil {
		log.Fatal(err)
	}
	c, err := devices.OpByOp(eager.ContextOptions{})
	if err != nil {
		log.Fatal(err)
	}
	accuracy, err := train(context.Background(), c, 10)
	if err := errors.Join(err, c.Close(), devices.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("accuracy %.2f%%\n", 100*accuracy)
}
