package bench

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/executor/session"
)

// own is a workload of a config: its model, loss and optimizer, on samples of its data.
type own struct {
	spec  models.Spec
	optim optim.Spec
	data  *datasets.Part
}

// Of is the workload of a config: steps of its model with its loss and optimizer, on the
// first samples of its training part. The learning rate is that of the other workloads.
func Of(ctx context.Context, c *configs.Config) (w Workload, err error) {
	if c, err = specs.Check(c, nil); err != nil {
		return w, err
	}
	data, err := specs.OpenData(ctx, c, specs.DataOptions{})
	if err != nil {
		return w, err
	}
	info := &data.Info
	if len(info.Buckets) > 0 {
		return w, configs.At(c.Where("data.source"), fmt.Errorf("%w: samples of %s have several lengths, so their steps take different times; bench measures data whose samples have one shape", ErrOptions, data.Name))
	}
	w = Workload{
		Name: c.Name, About: "the config's model on " + data.Name, Batch: session.NewSizes(c, data.Train.Len()).Batch,
		Classes: info.Classes, Input: info.Inputs[0].Meta, Target: info.Target.Meta,
		Microbatches: c.Train.Microbatches, Precision: c.Precision,
		own: &own{specs.Model(c, info, nil), specs.Optimizer(c, 1), data.Train},
	}
	w.own.optim.Schedule = adamW.Schedule
	if info.Tokenizer != nil && w.Input.Shape.Rank() > 0 {
		w.Tokens = w.Input.Shape[0]
	}
	g, err := w.Graph(1, false)
	if err != nil {
		return w, err
	}
	for _, v := range g.Vars {
		if v.Role == graph.Parameter {
			w.Parameters += int64(v.Meta.Shape.Elems())
		}
	}
	return w, nil
}

// read fills batch i, whose fields are those of the program's inputs.
func (o *own) read(i, samples int, inputs []*graph.Value, into [][]byte) error {
	fields := make([][]byte, len(o.data.Fields()))
	for k, v := range inputs {
		at := 0
		if v.Name == models.TargetName {
			at = len(fields) - 1
		}
		fields[at] = into[k]
	}
	at := datasets.Cursor{}
	for range i {
		at = o.data.Next(at, samples)
	}
	if at.Epoch > 0 || at.Index+samples > o.data.Len() { // an epoch's last batch may be smaller
		at = datasets.Cursor{}
	}
	_, err := o.data.Read(at, samples, fields)
	return err
}
