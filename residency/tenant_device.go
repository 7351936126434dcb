package residency

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/residency/copies"
)

// tenancy is a device as a tenant uses it. Its copy queues are its own, so that
// no copy waits behind, or fails with, one of another tenant. The manager's lock
// guards it.
type tenancy struct {
	dev           device.Device
	used          bool // the tenant has streams there
	id            string
	prefix        string // of the names of streams
	in, peer, out *copies.Queue
	replaced      []*copies.Queue // that failed for good
	failures      []error         // of these, not yet told by Tenant.Failures
	uses          *deviceUses     // the known order of uses, or nil
	now           int             // the launch in it that was acquired last
	turn          int             // counts the launches acquired in it
	queue         *paging.Queue   // of the copies in uses; nil while the device does not rank them
	memory        device.Stats    // of the tenant's buffers
}

// The names of the copy streams.
const (
	inName   = "copy-in"
	peerName = "peer"
	outName  = "copy-out"
)

// open opens the copy queues.
func (y *tenancy) open() error {
	for _, x := range []struct {
		name string
		to   **copies.Queue
	}{{inName, &y.in}, {peerName, &y.peer}, {outName, &y.out}} {
		q, err := y.newQueue(x.name)
		if err != nil {
			return err
		}
		*x.to = q
	}
	return nil
}

// newQueue opens a copy queue.
func (y *tenancy) newQueue(name string) (*copies.Queue, error) {
	q, err := copies.Open(y.dev, y.prefix+name)
	if err != nil {
		return nil, fmt.Errorf("%s stream of %s: %w", name, y.id, err)
	}
	return q, nil
}

// renewed is the stream of the next copy in a queue. A queue that has failed for good is
// replaced first: later copies do not fail with it.
func (y *tenancy) renewed(q **copies.Queue, name string) (device.Stream, error) {
	if failure := (*q).Record().Err(); failure != nil {
		fresh, err := y.newQueue(name)
		if err != nil {
			return nil, err
		}
		y.failures = append(append(y.failures, (*q).Failures()...), failure)
		y.replaced, *q = append(y.replaced, *q), fresh
	}
	s, err := (*q).Stream()
	if err != nil {
		return nil, fmt.Errorf("%s stream of %s: %w", name, y.id, err)
	}
	return s, nil
}

// queues lists the copy queues that are open.
func (y *tenancy) queues() (open []*copies.Queue) {
	for _, q := range []*copies.Queue{y.in, y.peer, y.out} {
		if q != nil {
			open = append(open, q)
		}
	}
	return open
}

// takeFailures returns the failures of copies that went well later, or that later ones do
// not wait for, each once.
func (y *tenancy) takeFailures() []error {
	list := y.failures
	y.failures = nil
	for _, q := range y.queues() {
		list = append(list, q.Failures()...)
	}
	return list
}

// end closes the copy queues, which waits for their work.
func (y *tenancy) end() error {
	var errs []error
	for _, q := range append(y.queues(), y.replaced...) {
		errs = append(errs, q.Close())
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
