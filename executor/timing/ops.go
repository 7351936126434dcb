package timing

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/calls"
	"github.com/berth-ml/berth/partition"
)

// segmentOps are the ops of a segment, each compiled by itself, as a run op by op has them.
type segmentOps struct {
	calls []calls.Call
	exes  []device.Executable
	temps map[*calls.Memory]device.Buffer // the temporaries that there are now
	in    []device.Buffer                 // of one call; reused
	out   []device.Buffer
}

// compileOps compiles the ops of a variant.
func compileOps(dev device.Device, v *partition.Variant, stop func() error) (*segmentOps, error) {
	cut, err := calls.Cut(v.Graph, v.Alias, stop)
	if err != nil {
		return nil, err
	}
	x := &segmentOps{calls: cut, temps: map[*calls.Memory]device.Buffer{}}
	for i := range cut {
		exe, err := dev.Compile(cut[i].Graph, device.CompileOptions{Alias: cut[i].Alias, CheckFinite: true, Stop: stop})
		if err != nil {
			x.release()
			return nil, err
		}
		x.exes = append(x.exes, exe)
	}
	return x, nil
}

func (x *segmentOps) release() {
	for _, exe := range x.exes {
		exe.Release()
	}
}

// run runs a task several times in a row, and returns the seconds of one run: from the first
// launch to the end of the last, with the time between launches. Where the tensors of
// other tasks leave too little room, it frees them all.
func (x *segmentOps) run(ctx context.Context, s *store, t *Task, repeats int) (seconds float64, err error) {
	seconds, err = x.try(ctx, s, t, repeats)
	if !errors.Is(err, device.ErrOutOfMemory) {
		return seconds, err
	}
	if err := s.free(); err != nil {
		return 0, err
	}
	return x.try(ctx, s, t, repeats)
}

// try is run in the memory that there is. Each temporary is taken by the op that
// makes it, and freed behind the last that reads it, as in a step.
func (x *segmentOps) try(ctx context.Context, s *store, t *Task, repeats int) (seconds float64, err error) {
	in, out, err := s.tensors(ctx, t)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	for range repeats {
		if err = x.launch(s, in, out); err != nil {
			break
		}
	}
	if err == nil {
		err = ended(ctx, s.stream.Record())
	}
	seconds = time.Since(begin).Seconds() / float64(repeats)
	return seconds, errors.Join(err, x.freeTemps(s.stream))
}

// launch queues all ops with these inputs and outputs.
func (x *segmentOps) launch(s *store, in, out []device.Buffer) error {
	for i := range x.calls {
		if err := x.launchOp(s, i, in, out); err != nil {
			return err
		}
	}
	return nil
}

func (x *segmentOps) launchOp(s *store, i int, in, out []device.Buffer) (err error) {
	c := &x.calls[i]
	buffer := func(m *calls.Memory) (device.Buffer, error) {
		switch {
		case m.Class == calls.Input:
			return in[m.Index], nil
		case m.Class == calls.Output:
			return out[m.Index], nil
		case x.temps[m] != nil:
			return x.temps[m], nil
		}
		b, err := s.alloc(m.Meta, device.Activation)
		if err == nil && b != nil {
			x.temps[m] = b
		}
		return b, err
	}
	if x.in, err = buffers(x.in[:0], c.In, buffer); err != nil {
		return err
	}
	if x.out, err = buffers(x.out[:0], c.Out, buffer); err != nil {
		return err
	}
	scratch, err := s.alloc(bytes(x.exes[i].Memory().Temporary), device.Scratch)
	if err != nil {
		return err
	}
	done, err := s.stream.Launch(x.exes[i], x.in, x.out, scratch)
	if scratch != nil {
		err = errors.Join(err, scratch.Free(s.stream.Record()))
	}
	for _, m := range c.Over {
		if b := x.temps[m]; b != nil {
			err = errors.Join(err, b.Free(done))
			delete(x.temps, m)
		}
	}
	return err
}

// buffers appends the buffers of memories.
func buffers(list []device.Buffer, ms []*calls.Memory, of func(*calls.Memory) (device.Buffer, error)) ([]device.Buffer, error) {
	list = slices.Grow(list, len(ms))
	for _, m := range ms {
		b, err := of(m)
		if err != nil {
			return list, err
		}
		list = append(list, b)
	}
	return list, nil
}

// freeTemps frees the temporaries that a run left for an error.
func (x *segmentOps) freeTemps(s device.Stream) error {
	var errs []error
	for _, b := range x.temps {
		errs = append(errs, b.Free(s.Record()))
	}
	clear(x.temps)
	return errors.Join(errs...)
}
