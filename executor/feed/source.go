package feed

import (
	"context"
	"errors"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
)

// source reads the batches of a part ahead, into host memory of its own.
type source struct {
	residency *residency.Tenant // counts the host memory
	loader    *datasets.Loader
	slots     []executor.Batch
	pinned    []device.HostBuffer
	held      int64 // bytes of pinned
}

// newSource begins to read, with so many batches in memory from which dev copies
// fastest. They are for the inputs of p.
func newSource(dev device.Device, p *executor.Program, part *datasets.Part, slots int, o datasets.LoaderOptions) (*source, error) {
	s := &source{residency: p.Residency(), slots: make([]executor.Batch, slots), held: int64(slots) * batchBytes(part, o.Batch)}
	if err := s.residency.HoldHost(s.held); err != nil {
		return nil, err
	}
	fields := part.Fields()
	dst := make([][][]byte, slots)
	for i := range s.slots {
		for _, field := range fields {
			hb, err := dev.AllocHost(int64(o.Batch) * field.Meta.Bytes())
			if err != nil {
				return nil, errors.Join(err, s.Close())
			}
			s.pinned = append(s.pinned, hb)
			dst[i] = append(dst[i], hb.Bytes())
		}
		all := s.pinned[i*len(fields):]
		for _, v := range p.Inputs() {
			s.slots[i].Fields = append(s.slots[i].Fields, all[fieldOf(v, fields)])
		}
	}
	var err error
	if s.loader, err = datasets.NewLoader(part, dst, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// batchBytes is the memory of a batch of a part.
func batchBytes(part *datasets.Part, batch int) (bytes int64) {
	for _, field := range part.Fields() {
		bytes += int64(batch) * field.Meta.Bytes()
	}
	return bytes
}

// fieldOf is the field of a sample that feeds an input.
func fieldOf(v *graph.Value, fields []datasets.Field) int {
	switch v.Name {
	case models.TargetName:
		return len(fields) - 1
	case models.LengthName:
		return 1
	case models.PositionName:
		return 2
	}
	return 0
}

// Next waits for the next batch; io.EOF says that there is none.
func (s *source) Next(ctx context.Context) (datasets.Batch, error) { return s.loader.Next(ctx) }

// fed is a batch as a program takes it.
func (s *source) fed(b datasets.Batch) executor.Batch {
	x := s.slots[b.Slot]
	x.Samples, x.Bucket = b.Samples, b.Bucket
	return x
}

// Close ends the reading and frees the memory; no queued step may use it.
func (s *source) Close() error {
	if s.loader != nil {
		s.loader.Close()
	}
	var errs []error
	for _, hb := range s.pinned {
		errs = append(errs, hb.Free())
	}
	s.residency.ReleaseHost(s.held)
	s.pinned, s.held = nil, 0
	return errors.Join(errs...)
}
