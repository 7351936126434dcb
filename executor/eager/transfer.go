package eager

import (
	"context"
	"errors"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hosttensor"
)

// write gives t memory and lets queue fill it. It waits for the end.
func (l *lane) write(t *Tensor, queue func(device.Buffer) error) error {
	b, err := l.stream.Alloc(t.meta, device.Activation)
	if err != nil {
		return err
	}
	t.attach(b)
	if err := queue(b); err != nil {
		return err
	}
	e := l.stream.Record()
	t.used(e)
	return l.settle(e)
}

// read copies contents out, and waits for it.
func (l *lane) read(t *Tensor) (*tensor.Dense, error) {
	d, err := hosttensor.New(t.meta)
	if err != nil {
		return nil, err
	}
	_, to, err := hosttensor.Bytes(d)
	if err != nil {
		return nil, err
	}
	from, err := l.dev.AllocHost(t.meta.Bytes())
	if err != nil {
		return nil, err
	}
	done, err := l.stream.CopyOut(from, t.buf)
	if err == nil {
		err = l.settle(done)
	}
	copy(to, from.Bytes())
	return d, errors.Join(err, from.Free())
}

// settle waits for e and replaces the stream if it failed.
func (l *lane) settle(e device.Event) error {
	err := e.Wait(context.Background())
	if err != nil {
		l.renew()
	}
	return err
}
