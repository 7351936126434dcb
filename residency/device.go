package residency

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/residency/copies"
	"github.com/berth-ml/berth/residency/ledger"
)

// devState is a device as its manager uses it: the copies of all tenants' tensors there, and
// the memory that they take. The manager owns it, and its lock guards it.
type devState struct {
	dev   device.Device
	index int // in the manager's list, and in Tensor.copies
	id    string
	spec  device.Spec
	move  device.Stream // for copies within the device

	evictor   device.Evictor // the device's own policy; nil: the common one
	unit      int64          // bytes of which each buffer takes a multiple
	residents []*Tensor      // tensors with a buffer here
	ranking   ranking
	missing   int64 // bytes that the attempt under way must take
	leased    int64 // bytes of the copies that leases contain
	freeErr   error // for Close to report
	moved     moved // for all tenants, also those that have closed
	most      most
}

// moveName is the name of the stream for copies within a device.
const moveName = "move"

// open opens the stream for copies within the device.
func (d *devState) open() (err error) {
	if d.move, err = d.dev.NewStream(moveName); err != nil {
		return fmt.Errorf("%s stream of %s: %w", moveName, d.id, err)
	}
	return nil
}

// of is the device as t's tenant uses it.
func (d *devState) of(t *Tensor) *tenancy { return &t.tenant.on[d.index] }

// copy is t's copy here.
func (d *devState) copy(t *Tensor) *devCopy { return &t.copies[d.index] }

// attach makes b, which was taken for work in stream s, the buffer of t's copy here.
// The copy has no contents yet, but whoever uses it waits for what s waits for.
func (d *devState) attach(t *Tensor, b device.Buffer, s device.Stream) {
	c := d.copy(t)
	c.clear()
	c.buf, c.Ready = b, s.Record()
	c.slot = len(d.residents)
	d.residents = append(d.residents, t)
	d.of(t).count(t.usage, d.takes(t.bytes))
}

// free frees the buffer of t's copy here, if there is one. Whoever gets the
// memory next waits for the copy's last uses.
func (d *devState) free(t *Tensor, cause string) {
	c := d.copy(t)
	if c.buf == nil {
		return
	}
	d.unlist(t)
	d.failed(c.buf.Free(c.lastUses()...), t.name)
	d.of(t).count(t.usage, -d.takes(t.bytes))
	// The last resident takes the slot that is free now.
	last := len(d.residents) - 1
	moved := d.residents[last]
	d.residents[c.slot] = moved
	d.copy(moved).slot = c.slot
	d.residents[last] = nil
	d.residents = d.residents[:last]
	c.buf = nil
	c.clear()
	t.note(d.index, ledger.Row{Kind: ledger.Drop, From: d.id, Cause: cause})
}

// lease makes t's copy here one that a lease contains.
func (d *devState) lease(t *Tensor) {
	c := d.copy(t)
	if c.leased == 0 {
		d.leased += t.bytes
	}
	c.leased++
}

// unlease undoes lease.
func (d *devState) unlease(t *Tensor) {
	c := d.copy(t)
	c.leased--
	if c.leased == 0 {
		d.leased -= t.bytes
	}
}

// takes is the memory that a buffer of so many bytes takes.
func (d *devState) takes(bytes int64) int64 { return (bytes + d.unit - 1) / d.unit * d.unit }

// freeBytes is the bytes that no buffer has, in pieces or not.
func (d *devState) freeBytes() int64 { return d.spec.MemoryBytes - d.dev.Stats().Live }

// failed keeps the failure to free something, for Close to report.
func (d *devState) failed(err error, name string) {
	if err != nil {
		d.freeErr = errors.Join(d.freeErr, fmt.Errorf("free %s on %s: %w", name, d.id, err))
	}
}

// tenancy is a device as one tenant uses it. The tenant owns it. Its copy queues are its own,
// so that no copy waits behind, or fails with, one of another tenant. The manager's lock
// guards it.
type tenancy struct {
	d             *devState
	used          bool   // the tenant has streams there
	prefix        string // of the names of streams
	in, peer, out *copies.Queue
	replaced      []*copies.Queue // that failed for good
	failures      []error         // of these, not yet told by Tenant.Failures
	place         place           // in the known order of uses
	queue         *paging.Queue   // of the copies in that order; nil while the device does not rank them
	memory        device.Stats    // of the tenant's buffers
	live, most    usageBytes      // of that: now, and when the device had most
	changed       bool            // since then
	moved         moved
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
	q, err := copies.Open(y.d.dev, y.prefix+name)
	if err != nil {
		return nil, fmt.Errorf("%s stream of %s: %w", name, y.d.id, err)
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
		return nil, fmt.Errorf("%s stream of %s: %w", name, y.d.id, err)
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
	if bytes < 0 {
		y.d.most.keep()
	}
	x := &y.memory
	x.Live += bytes
	x.LiveBy[u] += bytes
	x.Peak = max(x.Peak, x.Live)
	x.PeakBy[u] = max(x.PeakBy[u], x.LiveBy[u])
	y.live[u].Store(x.LiveBy[u])
	y.d.most.count(y, bytes)
}

// compaction answers a device that moves buffers together: whose they are, and what still
// uses them. It implements device.Mover. The manager's scratch owns the one that there is.
type compaction struct {
	d     *devState
	owner map[device.Buffer]*devCopy // of the buffers that may move; made when it is first asked for
	task  device.Stream
	lease *Lease // of the task
	err   error
}

// compact moves copies together on a device until a buffer of so many bytes has
// room, if its free memory is enough in all. Leased copies stay where they are. The
// ones that an attempt has got for a task move, and so does the scratch in its
// lease, for which the task's stream waits.
func (x *compaction) compact(d *devState, bytes int64, task device.Stream, l *Lease) error {
	s, ok := d.move.(device.Compactor)
	if !ok {
		return nil
	}
	clear(x.owner)
	x.d, x.task, x.lease, x.err = d, task, l, nil
	_, err := s.Compact(bytes, x)
	x.task, x.lease = nil, nil
	return cmp.Or(err, x.err)
}

// copyOf is the copy that has a buffer; nil if a lease contains it.
func (x *compaction) copyOf(b device.Buffer) *devCopy {
	if x.owner == nil {
		x.owner = map[device.Buffer]*devCopy{}
	}
	if len(x.owner) == 0 {
		for _, t := range x.d.residents {
			if c := x.d.copy(t); c.leased == 0 {
				x.owner[c.buf] = c
			}
		}
	}
	return x.owner[b]
}

// Movable is true for copies that are not leased.
func (x *compaction) Movable(b device.Buffer) bool { return x.copyOf(b) != nil || b == x.lease.Scratch }

// Uses returns the last uses of the copy in b. Scratch has not been used yet.
func (x *compaction) Uses(b device.Buffer) []device.Event {
	if c := x.copyOf(b); c != nil {
		return c.lastUses()
	}
	return nil
}

// Moved records a copy's new buffer.
func (x *compaction) Moved(from, to device.Buffer, done device.Event) {
	if c := x.copyOf(from); c != nil {
		c.buf, c.Moved, c.readers = to, done, c.readers[:0]
		return
	}
	x.lease.Scratch = to
	if err := x.task.WaitFor(done); err != nil {
		x.err = err
	}
}
