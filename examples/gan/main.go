// Gan trains two networks against each other: a generator turns noise into numbers, and
// a critic tells them from those of the data, which lie around 3. The program takes the
// steps of both. A critic's batch is half data, half generated; the generator learns
// through a frozen copy of the critic at its end. Try it: go run ./examples/gan
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/shape"
	"gorgonia.org/tensor"
)

// play trains both for some rounds, and returns the mean of the last generated numbers.
func play(ctx context.Context, dir string, rounds int) (mean float32, err error) {
	critic, stop1, err1 := start(ctx, dir, "critic", 1, func(r *rand.Rand) float64 { return 3 + r.NormFloat64()/2 })
	generator, stop2, err2 := start(ctx, dir, "generator", 4, (*rand.Rand).NormFloat64)
	defer func() { err = errors.Join(err, stop1(), stop2()) }()
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	for range rounds {
		noise, err1 := generator.Next(ctx) // tensors over the memory that the device copies from
		data, err2 := critic.Next(ctx)
		if err := errors.Join(err1, err2); err != nil {
			return 0, err
		}
		made, err := generator.Predict(ctx, noise.Input) // pairs of a number and its score
		if err != nil {
			return 0, err
		}
		mean = 0
		for i := range data.Samples / 2 { // the other half of the batch stays data, with target 1
			data.Input.Float32s()[i], data.Target.Float32s()[i] = made.Float32s()[2*i], 0
			mean += made.Float32s()[2*i] / float32(data.Samples/2)
		}
		err = errors.Join(critic.Step(ctx),
			generator.CopyFrom(ctx, critic, "critic_1.weight", "critic_1.bias", "critic_2.weight", "critic_2.bias"),
			generator.Step(ctx))
		if err != nil {
			return 0, err
		}
	}
	return mean, nil
}

// start begins a run of a config on random samples with target 1.
func start(ctx context.Context, dir, name string, size int, number func(*rand.Rand) float64) (*berth.Training, func() error, error) {
	run, err := berth.OpenWith(ctx, config(name), berth.OpenOptions{Data: &custom.Set{
		Name: name, Version: 1, Len: 1 << 20, Input: shape.F32(size), Target: shape.F32(1),
		Fill: func(s custom.Sample, input, target *tensor.Dense) error {
			r := rand.New(rand.NewPCG(s.Seed, 0))
			for i := range input.Float32s() {
				input.Float32s()[i] = float32(number(r))
			}
			target.Float32s()[0] = 1
			return nil
		},
	}})
	if err != nil {
		return nil, func() error { return nil }, err
	}
	t, err := run.Start(ctx, berth.TrainOptions{Dir: dir + "/" + name, Fresh: true})
	return t, func() error { return errors.Join(t.Close(), run.Close()) }, err
}

func main() {
	mean, err := play(context.Background(), "runs/gan", 1000)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the generated numbers have a mean of %.2f, those of the data one of 3\n", mean)
}
