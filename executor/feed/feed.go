package feed

import (
	"context"
	"errors"
	"io"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
)

// slots is the number of batches in memory where so many lanes run: one for each, one
// that is next, and one being read.
func slots(lanes int) int { return lanes + 2 }

// Feeder reads batches ahead and hands them to a program. One goroutine uses
// it at a time.
type Feeder struct {
	*source
	prog   *executor.Program
	queued []queued
}

// queued is a step that is not settled.
type queued struct {
	ticket executor.Ticket
	batch  datasets.Batch
}

// New reads part from o.Start on, into host memory from which dev copies
// fastest. A program's target is fed from the last field of a sample, lengths from the
// second, and its input from the first. Of a batch, a rank reads the samples that its part of the program needs.
// The caller closes the feeder.
func New(dev device.Device, p *executor.Program, part *datasets.Part, o datasets.LoaderOptions) (*Feeder, error) {
	if p.Runtime().Ranked() {
		o.Rows = func(_ datasets.Cursor, samples, bucket int) ([]datasets.Rows, error) {
			return rowsOf(p, samples, bucket)
		}
	}
	s, err := newSource(dev, p, part, slots(1), o)
	if err != nil {
		return nil, err
	}
	return &Feeder{source: s, prog: p}, nil
}

// rowsOf is which samples of a batch a program needs on this rank.
func rowsOf(p *executor.Program, samples, bucket int) (rows []datasets.Rows, err error) {
	list, err := p.Rows(samples, bucket)
	for _, r := range list {
		rows = append(rows, datasets.Rows(r))
	}
	return rows, err
}

// HostBytes is the host memory of the batches of a part that are read for so many
// lanes; a Feeder has one.
func HostBytes(part *datasets.Part, batch, lanes int) (bytes int64) {
	return int64(slots(lanes)) * batchBytes(part, batch)
}

// Step queues a step on a batch that Next gave. A step that fails at once
// counts as queued, so that Failed finds its batch.
func (f *Feeder) Step(ctx context.Context, b datasets.Batch) error {
	f.queued = append(f.queued, queued{f.prog.Next(), b})
	_, err := f.prog.Step(ctx, f.fed(b))
	return err
}

// Memory is the memory of a batch that Next gave and that is not settled: a slice for
// each field of a sample, with its samples first. It may be written until Step.
func (f *Feeder) Memory(b datasets.Batch) (fields [][]byte) {
	n := len(f.pinned) / len(f.slots)
	for _, hb := range f.pinned[b.Slot*n:][:n] {
		fields = append(fields, hb.Bytes())
	}
	return fields
}

// Queued is the number of steps that are not settled.
func (f *Feeder) Queued() int { return len(f.queued) }

// Settle waits for queued steps until only left of them remain. After each,
// done is called, and its batch's memory goes back to the reader.
func (f *Feeder) Settle(ctx context.Context, left int, done func(datasets.Batch) error) error {
	for len(f.queued) > left {
		q := f.queued[0]
		if err := f.prog.Wait(ctx, q.ticket); err != nil {
			return err
		}
		if err := done(q.batch); err != nil {
			return err
		}
		f.loader.Return(q.batch.Slot)
		copy(f.queued, f.queued[1:])
		f.queued = f.queued[:len(f.queued)-1]
	}
	return nil
}

// Failed is the batch of a queued step, which is still in memory: as it was read, and
// as the program takes it.
func (f *Feeder) Failed(t executor.Ticket) (b datasets.Batch, fed executor.Batch, ok bool) {
	for _, q := range f.queued {
		if q.ticket == t {
			return q.batch, f.fed(q.batch), true
		}
	}
	return b, fed, false
}

// Each runs a program over a part, sample by sample in order, and calls done
// after each step. Reading runs ahead of the steps. A runtime that is suspended stands still before a step.
// When it returns, nothing is queued any more, however it ends.
func Each(ctx context.Context, dev device.Device, p *executor.Program, part *datasets.Part, done func(datasets.Batch) error) (err error) {
	f, err := New(dev, p, part, datasets.LoaderOptions{Batch: p.Inputs()[0].Meta.Shape[0], Epochs: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// A queued step is waited for even if ctx ends meanwhile: its batch must
	// stay in memory until then.
	work := context.WithoutCancel(ctx)
	for {
		b, err := f.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.Runtime().Rest(ctx); err != nil {
			return err
		}
		if err := f.Step(work, b); err != nil {
			return err
		}
		if err := f.Settle(work, 0, done); err != nil {
			return err
		}
	}
}
