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
	spec        models.Spec
	optim       optim.Spec
	data        *datasets.Part
	fingerprint string                   // of the data
	positions   int                      // to which samples of different lengths are padded; 0 where all have one shape
	from        [batches]datasets.Cursor // of the batches
}

// Of is the workload of a config: steps of its model with its loss and optimizer, on the
// first samples of its training part. The learning rate is that of the other workloads.
// Samples of different lengths have a workload for each bucket, from the shortest.
func Of(ctx context.Context, c *configs.Config) (ws []Workload, err error) {
	if c, err = specs.Check(c, nil); err != nil {
		return nil, err
	}
	data, err := specs.OpenData(ctx, c, specs.DataOptions{})
	if err != nil {
		return nil, err
	}
	info, part := &data.Info, data.Train
	base := Workload{
		Name: c.Name, About: "the config's model on " + data.Name, Batch: session.NewSizes(c, part.Len()).Batch,
		Classes: info.Classes, Input: info.Inputs[0].Meta, Target: info.Target.Meta,
		Microbatches: c.Train.Microbatches, Precision: c.Precision,
	}
	base.own = &own{spec: specs.Model(c, info, nil), optim: specs.Optimizer(c, 1), data: part, fingerprint: info.Fingerprint}
	base.own.optim.Schedule = adamW.Schedule
	if info.Tokenizer != nil && base.Input.Shape.Rank() > 0 {
		base.Tokens = base.Input.Shape[0]
	}
	g, err := base.Graph(1, false)
	if err != nil {
		return nil, err
	}
	for _, v := range g.Vars {
		if v.Role == graph.Parameter {
			base.Parameters += int64(v.Meta.Shape.Elems())
		}
	}
	if part.Buckets() == nil {
		for i := range base.own.from {
			if at := part.Next(datasets.Cursor{}, i*base.Batch); at.Epoch == 0 && at.Index+base.Batch <= part.Len() { // an epoch's last batch may be smaller
				base.own.from[i] = at
			}
		}
		return []Workload{base}, nil
	}
	for i, positions := range part.Buckets() {
		ws = append(ws, base.inBucket(i, positions))
	}
	return ws, nil
}

// inBucket is the workload of the batches of a bucket alone. Its tokens are those that are no padding, on average.
func (w Workload) inBucket(bucket, positions int) Workload {
	o := *w.own
	o.positions = positions
	var samples, tokens int64
	n := 0
	for at := (datasets.Cursor{}); at.Epoch == 0; at = o.data.Next(at, w.Batch) {
		if o.data.Bucket(at) != bucket {
			continue
		}
		if n < batches {
			o.from[n] = at
		}
		n++
		more, seen := o.data.Counted(at)
		samples, tokens = samples+more, tokens+seen
	}
	for i := n; i < batches; i++ {
		o.from[i] = o.from[0]
	}
	if w.Tokens > 0 {
		w.Tokens = int((tokens + samples/2) / samples)
	}
	w.Name, w.own = fmt.Sprintf("%s:%d", w.Name, positions), &o
	return w
}

// oneShape refuses a workload whose samples have several lengths.
func (w Workload) oneShape(flag string) error {
	if w.own == nil || w.own.positions == 0 {
		return nil
	}
	return fmt.Errorf("%w: --%s: the samples of %s have several lengths: leave it out to measure training, or name a config whose samples have one shape", ErrOptions, flag, w.Name)
}

// read fills batch i, whose fields are those of the program's inputs.
func (o *own) read(i, samples int, inputs []*graph.Value, into [][]byte) error {
	fields := o.data.Alloc(samples) // for the longest samples, which the program's inputs may lack room for
	if _, err := o.data.Read(o.from[i], samples, fields); err != nil {
		return err
	}
	for k, v := range inputs {
		at := 0
		switch v.Name {
		case models.TargetName:
			at = len(fields) - 1
		case models.LengthName:
			at = 1
		case models.PositionName:
			at = 2
		}
		copy(into[k], fields[at])
	}
	return nil
}
