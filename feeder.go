package berth

import (
	"errors"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
)

// slots is how many batches are in memory: one running, one queued, one being
// read.
const slots = 3

// feeder reads batches ahead into pinned memory and hands them to a program.
type feeder struct {
	loader *datasets.Loader
	slots  [slots]executor.Batch
	pinned []device.HostBuffer
}

// newFeeder reads part from a cursor on. Fields of a sample go to the
// program's inputs by role: the first input and the target.
func newFeeder(dev device.Device, p *executor.Program, part *datasets.Part, o datasets.LoaderOptions) (*feeder, error) {
	f := &feeder{}
	fields := part.Fields()
	dst := make([][][]byte, slots)
	for i := range f.slots {
		for _, field := range fields {
			hb, err := dev.AllocHost(int64(o.Batch) * field.Meta.Bytes())
			if err != nil {
				return nil, errors.Join(err, f.close())
			}
			f.pinned = append(f.pinned, hb)
			dst[i] = append(dst[i], hb.Bytes())
		}
		all := f.pinned[i*len(fields):]
		for _, v := range p.Inputs() {
			f.slots[i].Fields = append(f.slots[i].Fields, all[fieldOf(v, fields)])
		}
	}
	var err error
	if f.loader, err = datasets.NewLoader(part, dst, o); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// fieldOf is which field of a sample feeds an input.
func fieldOf(v *graph.Value, fields []datasets.Field) int {
	if v.Name == models.TargetName {
		return len(fields) - 1
	}
	return 0
}

// batch is what a loader's batch feeds.
func (f *feeder) batch(b datasets.Batch) executor.Batch {
	x := f.slots[b.Slot]
	x.Samples = b.Samples
	return x
}

// close ends the reading and frees the memory; no queued step may use it.
func (f *feeder) close() error {
	if f.loader != nil {
		f.loader.Close()
	}
	var errs []error
	for _, hb := range f.pinned {
		errs = append(errs, hb.Free())
	}
	f.pinned = nil
	return errors.Join(errs...)
}
