package infer

import (
	"context"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/feed"
	"github.com/berth-ml/berth/partition"
)

// Model is a model and its cut over the devices of a runtime.
type Model struct {
	Spec       models.Spec
	Plan       *partition.Plan // of another graph of the model, which is cut already
	Microbatch int             // most samples computed at a time
}

// pass goes over a part of the data with one graph of a model.
type pass struct {
	rt   *executor.Runtime
	prog *executor.Program
	part *datasets.Part
	dev  device.Device // of the first stage: it is fed
}

// newPass compiles the graphs that build makes for a number of samples: a full
// batch, and the rest of the part.
func newPass(ctx context.Context, rt *executor.Runtime, m Model, part *datasets.Part, o executor.LoadOptions, build func(models.Size) (*graph.Graph, error)) (*pass, error) {
	o.LastMicrobatches, o.Stop = 1, func() error { return context.Cause(ctx) }
	batch := min(m.Microbatch, part.Len())
	g, err := build(models.Size{Microbatch: batch, Stop: o.Stop})
	if err != nil {
		return nil, err
	}
	if o.Full, err = partition.SameCut(m.Plan, g, o.Stop); err != nil {
		return nil, err
	}
	if rest := part.Len() % batch; rest > 0 {
		if g, err = build(models.Size{Microbatch: rest, Stop: o.Stop}); err != nil {
			return nil, err
		}
		if o.Tail, err = o.Full.Rebind(g, o.Stop); err != nil {
			return nil, err
		}
	}
	p := &pass{rt: rt, part: part, dev: rt.Devices[m.Plan.Stages[0].Device]}
	p.prog, err = rt.Load(o)
	return p, err
}

// each runs every sample once, and calls done after each batch.
func (p *pass) each(ctx context.Context, done func(datasets.Batch) error) error {
	return feed.Each(ctx, p.dev, p.prog, p.part, done)
}
