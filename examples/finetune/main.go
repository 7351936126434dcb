// Finetune keeps the body of a model that has learnt digits, and trains a new head on it
// that tells even from odd. (Where the new model has all parameters of the old one, a file
// of weights does it: trainer train --init.) Try it: go run ./examples/finetune
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/shape"
	"gorgonia.org/tensor"
)

var shared = []string{"body.weight", "body.bias"} // the parameters that both models have

// learn trains a config to its end, from given values of the body if there are any. It
// returns those of the end, and the accuracy on samples that were held back.
func learn(ctx context.Context, file, dir string, data *custom.Set, given []*tensor.Dense) (body []*tensor.Dense, accuracy float64, err error) {
	cfg, err := configs.Load(file, configs.Overlay{})
	if err != nil {
		return nil, 0, err
	}
	run, err := berth.Open(ctx, cfg, berth.OpenOptions{Data: data})
	if err != nil {
		return nil, 0, err
	}
	t, err := run.Start(ctx, berth.TrainOptions{Dir: dir + "/" + cfg.Name, Fresh: true})
	defer func() { err = errors.Join(err, t.Close(), run.Close()) }()
	for i := 0; i < len(given) && err == nil; i++ {
		err = t.Replace(ctx, shared[i], given[i]) // onto the device
	}
	for err == nil && t.More() {
		err = t.Step(ctx)
	}
	body = make([]*tensor.Dense, len(shared))
	for i := 0; i < len(shared) && err == nil; i++ {
		body[i], err = t.Fetch(ctx, shared[i]) // out of the device
	}
	if err == nil {
		var report *berth.Report
		if report, err = t.Finish(ctx); err == nil {
			accuracy = *report.Final.ValAccuracy
		}
	}
	return body, accuracy, err
}

// parity is the digits of Berth, with the target whether a digit is odd.
func parity(ctx context.Context) (*custom.Set, error) {
	digits, err := datasets.Open(ctx, datasets.Spec{Source: "digits", Split: 1, KeepOrder: true})
	if err != nil {
		return nil, err
	}
	return &custom.Set{
		Name: "parity", Version: 1, Len: digits.Train.Len(), Input: digits.Info.Inputs[0].Meta, Target: shape.I32(), Classes: 2,
		Fill: func(s custom.Sample, input, target *tensor.Dense) error {
			_, err := digits.Train.Read(datasets.Cursor{Index: s.Index}, 1, [][]byte{shape.Bytes(input.Float32s()), shape.Bytes(target.Int32s())})
			target.Int32s()[0] %= 2
			return err
		},
	}, nil
}

func main() {
	ctx, in, dir := context.Background(), "examples/finetune/", "runs/finetune"
	body, _, err1 := learn(ctx, in+"digits.yaml", dir, nil, nil)
	data, err2 := parity(ctx)
	_, accuracy, err3 := learn(ctx, in+"parity.yaml", dir, data, body)
	if err := errors.Join(err1, err2, err3); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("even or odd: %.1f%% right\n", 100*accuracy)
}
