// Gan trains two networks against each other: a generator turns noise into numbers, and
// a critic tells them from those of the data, which lie around 3. A critic's batch is half
// data, half generated. The generator ends in a frozen copy of the critic, and learns
// what that takes for data. In so short a game it learns where the data lies, and not how
// wide it lies: its numbers are nearly equal. Try it: go run ./examples/gan
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/shape"
	"gorgonia.org/tensor"
)

// play trains both for some rounds, and returns the last generated numbers.
func play(ctx context.Context, in, dir string, rounds int) (numbers []float32, err error) {
	critic, run1, err1 := start(ctx, in+"critic.yaml", dir, 1, 3, 0.5)
	generator, run2, err2 := start(ctx, in+"generator.yaml", dir, 4, 0, 1)
	defer func() { err = errors.Join(err, critic.Close(), generator.Close(), run1.Close(), run2.Close()) }()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	for range rounds {
		noise, err1 := generator.Next(ctx) // tensors over the memory that the device copies from
		data, err2 := critic.Next(ctx)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		made, err := generator.Activations(ctx, "number", noise.Input)
		if err != nil {
			return nil, err
		}
		numbers = made.Float32s()[:data.Samples/2] // the other half of the batch stays data, with target 1
		copy(data.Input.Float32s(), numbers)
		clear(data.Target.Float32s()[:len(numbers)])
		if err := errors.Join(critic.Step(ctx), generator.CopyFrom(ctx, critic), generator.Step(ctx)); err != nil {
			return nil, err
		}
	}
	return numbers, nil
}

// start begins a run of a config on samples of random numbers with target 1.
func start(ctx context.Context, file, dir string, size int, mean, spread float64) (*berth.Training, *berth.Run, error) {
	cfg, err := configs.Load(file, configs.Overlay{})
	if err != nil {
		return nil, nil, err
	}
	run, err := berth.Open(ctx, cfg, berth.OpenOptions{Data: &custom.Set{
		Name: cfg.Name, Version: 1, Len: 1 << 20, Input: shape.F32(size), Target: shape.F32(1),
		Fill: func(s custom.Sample, input, target *tensor.Dense) error {
			r := rand.New(rand.NewPCG(s.Seed, 0))
			for i := range input.Float32s() {
				input.Float32s()[i] = float32(mean + spread*r.NormFloat64())
			}
			target.Float32s()[0] = 1
			return nil
		},
	}})
	if err != nil {
		return nil, nil, err
	}
	t, err := run.Start(ctx, berth.TrainOptions{Dir: dir + "/" + cfg.Name, Fresh: true})
	return t, run, err
}

func main() {
	numbers, err := play(context.Background(), "examples/gan/", "runs/gan", 1000)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the data lies around 3; generated:", numbers)
}
