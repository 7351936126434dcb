package residency

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
)

// tenancy is a device as a tenant uses it. Its copy streams are its own, so that
// no copy waits behind, or fails with, one of another tenant. The manager's lock
// guards it.
type tenancy struct {
	dev           device.Device
	id            string
	prefix        string // of the names of streams
	in, peer, out device.Stream
	failed        []device.Stream // copy streams that were replaced
	failures      []error         // of these streams, not yet told by Tenant.Failures
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

// open opens the copy streams.
func (y *tenancy) open() error {
	for _, s := range []struct {
		name string
		to   *device.Stream
	}{{inName, &y.in}, {peerName, &y.peer}, {outName, &y.out}} {
		st, err := y.dev.NewStream(y.prefix + s.name)
		if err != nil {
			return fmt.Errorf("%s stream of %s: %w", s.name, y.id, err)
		}
		*s.to = st
	}
	return nil
}

// renewed is a copy stream, replaced first if it has failed: later copies do not
// fail with it.
func (y *tenancy) renewed(s *device.Stream, name string) (device.Stream, error) {
	failure := (*s).Record().Err()
	if failure == nil {
		return *s, nil
	}
	fresh, err := y.dev.NewStream(y.prefix + name)
	if err != nil {
		return nil, fmt.Errorf("%s stream of %s: %w", name, y.id, err)
	}
	y.failed, *s = append(y.failed, *s), fresh
	y.failures = append(y.failures, failure)
	return fresh, nil
}

// streams lists the copy streams that are open.
func (y *tenancy) streams() []device.Stream {
	var open []device.Stream
	for _, s := range []device.Stream{y.in, y.peer, y.out} {
		if s != nil {
			open = append(open, s)
		}
	}
	return open
}

// end closes the copy streams, which waits for their work.
func (y *tenancy) end() error {
	var errs []error
	for _, s := range append(y.streams(), y.failed...) {
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
