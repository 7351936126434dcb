package feed

import (
	"context"
	"errors"
	"io"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
)

// Turns are lanes on the devices of several ranks.
type Turns struct {
	Lanes   []Lane
	Device  device.Device // of this rank, from which batches are fed
	Results Results       // a place is a lane
}

// Run runs the samples of a part, batch by batch, on one lane after the other. All ranks call it, and take all steps in
// the same order: so they send each other what a step lacks. Each reads the samples that its part of a lane's program
// needs, and takes the results that it has: the functions of Results are called for all lanes.
func (t Turns) Run(ctx context.Context, part *datasets.Part) (err error) {
	first, n := t.Lanes[0].Program, len(t.Lanes)
	size := first.Inputs()[0].Meta.Shape[0]
	s, err := newSource(t.Device, first, part, slots(n), datasets.LoaderOptions{
		Batch: size, Epochs: 1,
		Rows: func(at datasets.Cursor, samples, bucket int) ([]datasets.Rows, error) {
			return rowsOf(t.Lanes[at.Index/size%n].Program, samples, bucket)
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for {
		more, err := t.round(ctx, s)
		if err != nil || !more {
			return err
		}
	}
}

// round gives each lane a batch, and uses the results. more is false once all batches are read.
func (t Turns) round(ctx context.Context, s *source) (more bool, err error) {
	var batches []datasets.Batch
	var tickets []executor.Ticket
	for _, l := range t.Lanes {
		b, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return false, err
		}
		ticket, err := l.Program.Step(ctx, s.fed(b))
		if err != nil {
			return false, err
		}
		batches, tickets = append(batches, b), append(tickets, ticket)
	}
	for i, b := range batches {
		if err := t.Lanes[i].Program.Wait(ctx, tickets[i]); err != nil {
			return false, err
		}
		if err := t.Results.Collect(i, i, b); err != nil {
			return false, err
		}
		if err := t.Results.Done(i, b); err != nil {
			return false, err
		}
		s.loader.Return(b.Slot)
	}
	return len(batches) == len(t.Lanes), nil
}
