package timing

import (
	"context"
	"errors"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// store has the tensors of a device's tasks, which share them as in a step of one microbatch.
type store struct {
	dev     device.Device
	stream  device.Stream // of the tasks; memory is taken and freed in its order
	buffers map[Tensor]device.Buffer
}

func openStore(dev device.Device) (*store, error) {
	stream, err := dev.NewStream("measure")
	if err != nil {
		return nil, err
	}
	return &store{dev: dev, stream: stream, buffers: map[Tensor]device.Buffer{}}, nil
}

// take takes the buffers of a task. Where the tensors of other tasks leave too
// little room, or none in one piece, it frees them all and takes the scratch first.
func (s *store) take(ctx context.Context, t *Task, temporary int64) (in, out []device.Buffer, scratch device.Buffer, err error) {
	in, out, err = s.tensors(ctx, t)
	if err == nil {
		scratch, err = s.alloc(bytes(temporary), device.Scratch)
	}
	if !errors.Is(err, device.ErrOutOfMemory) {
		return in, out, scratch, err
	}
	if err := s.free(); err != nil {
		return nil, nil, nil, err
	}
	if scratch, err = s.alloc(bytes(temporary), device.Scratch); err == nil {
		in, out, err = s.tensors(ctx, t)
	}
	if err != nil && scratch != nil {
		err = errors.Join(err, scratch.Free(s.stream.Record()))
	}
	return in, out, scratch, err
}

// bytes describes so many bytes of memory.
func bytes(n int64) shape.Meta { return shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(n))} }

// tensors are the buffers of a task's inputs and outputs.
func (s *store) tensors(ctx context.Context, t *Task) (in, out []device.Buffer, err error) {
	v := t.Variant
	limits := idLimits(v.Graph)
	for i, x := range t.In {
		b, err := s.tensor(ctx, t, x, *limits.At(v.Graph.Inputs[i]))
		if err != nil {
			return nil, nil, err
		}
		in = append(in, b)
	}
	for _, x := range t.Out {
		b, err := s.tensor(ctx, t, x, 1)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, b)
	}
	return in, out, nil
}

// tensor is the buffer of a tensor. A new one has contents below limit, if they are
// whole numbers.
func (s *store) tensor(ctx context.Context, t *Task, x Tensor, limit int) (device.Buffer, error) {
	if b := s.buffers[x]; b != nil {
		return b, nil
	}
	b, err := s.alloc(x.Value.Meta, t.Usage(x.Value))
	if err != nil {
		return nil, err
	}
	s.buffers[x] = b
	return b, s.fill(ctx, b, func(dst []byte) { contents(x.Value, limit, dst) })
}

// alloc takes memory; nil for no bytes.
func (s *store) alloc(m shape.Meta, use device.Usage) (device.Buffer, error) {
	if m.Bytes() == 0 {
		return nil, nil
	}
	return s.stream.Alloc(m, use)
}

// free frees all tensors.
func (s *store) free() error {
	var errs []error
	for _, b := range s.buffers {
		errs = append(errs, b.Free(s.stream.Record()))
	}
	clear(s.buffers)
	return errors.Join(errs...)
}

// fill has write make the contents, and copies them into a buffer.
func (s *store) fill(ctx context.Context, b device.Buffer, write func(dst []byte)) error {
	h, err := s.dev.AllocHost(b.Meta().Bytes())
	if err != nil {
		return err
	}
	write(h.Bytes())
	err = s.stream.CopyIn(b, h)
	if err == nil {
		err = s.stream.Record().Wait(context.WithoutCancel(ctx))
	}
	return errors.Join(err, h.Free())
}

func (s *store) close() error { return errors.Join(s.free(), s.stream.Close()) }
