package residency

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/residency/copyout"
)

// tenancy is a device as a tenant uses it. Its copy streams are its own, so that
// no copy waits behind, or fails with, one of another tenant. The manager's lock
// guards it.
type tenancy struct {
	dev      device.Device
	used     bool // the tenant has streams there
	id       string
	prefix   string // of the names of streams
	in, peer device.Stream
	out      *copyout.Queue
	replaced []copyQueue   // that failed
	failures []error       // not yet told by Tenant.Failures
	uses     *deviceUses   // the known order of uses, or nil
	now      int           // the launch in it that was acquired last
	turn     int           // counts the launches acquired in it
	queue    *paging.Queue // of the copies in uses; nil while the device does not rank them
	memory   device.Stats  // of the tenant's buffers
}

// copyQueue is a stream of copies, or a copyout.Queue.
type copyQueue interface {
	Record() device.Event
	Close() error
}

// The names of the copy streams.
const (
	inName   = "copy-in"
	peerName = "peer"
	outName  = "copy-out"
)

// open opens the copy streams.
func (y *tenancy) open() (err error) {
	if y.in, err = y.stream(inName); err != nil {
		return err
	}
	if y.peer, err = y.stream(peerName); err != nil {
		return err
	}
	y.out, err = y.newOut()
	return err
}

// stream opens a copy stream.
func (y *tenancy) stream(name string) (device.Stream, error) {
	s, err := y.dev.NewStream(y.prefix + name)
	if err != nil {
		return nil, fmt.Errorf("%s stream of %s: %w", name, y.id, err)
	}
	return s, nil
}

// newOut opens a queue of copies to the host.
func (y *tenancy) newOut() (*copyout.Queue, error) {
	q, err := copyout.Open(y.dev, y.prefix+outName)
	if err != nil {
		return nil, fmt.Errorf("%s stream of %s: %w", outName, y.id, err)
	}
	return q, nil
}

// renewed is a copy stream, replaced first if it has failed: later copies do not
// fail with it.
func (y *tenancy) renewed(s *device.Stream, name string) (device.Stream, error) {
	failure := (*s).Record().Err()
	if failure == nil {
		return *s, nil
	}
	fresh, err := y.stream(name)
	if err != nil {
		return nil, err
	}
	y.replaced, *s = append(y.replaced, *s), fresh
	y.failures = append(y.failures, failure)
	return fresh, nil
}

// renewedOut is the queue of copies to the host, replaced first if it has failed.
func (y *tenancy) renewedOut() (*copyout.Queue, error) {
	if y.out.Record().Err() == nil {
		return y.out, nil
	}
	fresh, err := y.newOut()
	if err != nil {
		return nil, err
	}
	y.failures = append(y.failures, y.out.Failures()...)
	y.replaced, y.out = append(y.replaced, y.out), fresh
	return fresh, nil
}

// queues lists the copy streams that are open.
func (y *tenancy) queues() (open []copyQueue) {
	for _, s := range []device.Stream{y.in, y.peer} {
		if s != nil {
			open = append(open, s)
		}
	}
	if y.out != nil {
		open = append(open, y.out)
	}
	return open
}

// takeFailures returns the failed copies, each once.
func (y *tenancy) takeFailures() []error {
	list := y.failures
	if y.failures = nil; y.used {
		list = append(list, y.out.Failures()...)
	}
	return list
}

// end closes the copy streams, which waits for their work.
func (y *tenancy) end() error {
	var errs []error
	for _, s := range append(y.queues(), y.replaced...) {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// count counts a buffer that was taken, or given back if bytes is negative.
func (y *tenancy) count(u device.Usage, bytes int64) {
	x := &y.memory
	x.Live += bytes
	x.LiveBy[u] += bytes
	x.Peak = max(x.Peak, x.Live)
	x.PeakBy[u] = max(x.PeakBy[u], x.LiveBy[u])
}
