package eager

import (
	"context"
	"errors"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency"
)

// copies is a lane's stream for copies within its device.
type copies struct {
	dev  device.Device
	name string

	mu     sync.Mutex
	stream device.Stream // nil before the first copy
	lease  residency.Lease
}

// prompt is a stream that is no device.Delayer: a copy does not begin before its source is
// there, as a launch can.
type prompt struct{ device.Stream }

// queue copies the first tensor, which it needs to read, to the second one.
func (x *copies) queue(ctx context.Context, tenant *residency.Tenant, needs []residency.Need) (done device.Event, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stream == nil {
		s, err := x.dev.NewStream(x.name)
		if err != nil {
			return done, err
		}
		x.stream = &prompt{s}
	}
	if err := tenant.Acquire(ctx, x.stream, needs, 0, &x.lease); err != nil {
		return done, err
	}
	if err := x.stream.CopyPeer(x.lease.Buffers[1], x.lease.Buffers[0]); err != nil {
		return done, errors.Join(err, tenant.Abandon(&x.lease))
	}
	done = x.stream.Record()
	return done, tenant.Release(&x.lease, done)
}

// renew gives up the stream on which a copy failed. The next copy opens another one.
func (x *copies) renew(failed device.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stream != nil && x.stream.Record().Queue == failed.Queue {
		_ = x.stream.Close() // the failure is known
		x.stream = nil
	}
}

// close closes the stream.
func (x *copies) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stream == nil {
		return nil
	}
	return x.stream.Close()
}
