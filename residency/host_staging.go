package residency

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/berth-ml/berth/residency/hostmem"
	"github.com/berth-ml/berth/residency/ledger"
)

// pageBytes is the unit in which the system gives memory.
var pageBytes = os.Getpagesize()

// Staging is host memory that is reused for copies of the same tensors. A copy
// has a tensor's contents at the moment it was queued. A later task that
// overwrites the tensor waits, on its stream, for that tensor's copy alone; the
// host does not wait. One goroutine queues copies; another may read them. Make
// with [Manager.NewStaging]; Close it before the manager.
type Staging struct {
	m      *Manager
	copies []staged
}

// staged is the copy of one tensor in a Staging.
type staged struct {
	t    *Tensor
	mem  *hostmem.Block // kept for the next copy; nil when there is none
	dev  int            // index of the device that allocated mem
	host *hostmem.Block // set instead of mem if the host had the contents already
}

// NewStaging makes a Staging of tensors, without memory.
func (m *Manager) NewStaging(ts ...*Tensor) *Staging {
	s := &Staging{m: m, copies: make([]staged, len(ts))}
	for i, t := range ts {
		s.copies[i].t = t
	}
	return s
}

// Reserve allocates the memory for copies of tensors that are on a device now. It
// touches every page: the system supplies pages at the first touch, which would
// slow the first copy down. Once ctx is done it leaves the rest to the first
// copies, which is no error.
func (s *Staging) Reserve(ctx context.Context) error {
	for i := range s.copies {
		if ctx.Err() != nil {
			return nil
		}
		x := &s.copies[i]
		s.m.mu.Lock()
		d := x.t.truth
		if x.mem != nil || !x.t.onDevice() || x.t.hostCurrent() {
			s.m.mu.Unlock()
			continue
		}
		err := s.alloc(x, &s.m.devs[d])
		s.m.mu.Unlock()
		if err != nil {
			return fmt.Errorf("staging of %s: %w", x.t.name, err)
		}
		for b := x.mem.Bytes(); len(b) > 0 && !x.mem.InFile(); b = b[min(len(b), pageBytes):] {
			b[0] = 0
		}
	}
	return nil
}

// Queue queues a copy of tensor i as it is now, over the copy before. It blocks
// only for a store, or for a lease that writes the tensor.
func (s *Staging) Queue(ctx context.Context, r ledger.Reason, i int) error {
	if !r.Known() {
		return fmt.Errorf("staging: %q is not a known reason: use one of %v", r, ledger.Reasons())
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.unpin(i)
	s.m.host.Sweep()
	x := &s.copies[i]
	if err := s.m.retry(ctx, claim{}, func() (pause, error) { return s.queue(r, x) }); err != nil {
		return fmt.Errorf("staging of %s: %w", x.t.name, err)
	}
	return nil
}

// queue makes one attempt.
func (s *Staging) queue(r ledger.Reason, x *staged) (pause, error) {
	t := x.t
	switch {
	case t.tenant.gone:
		return pause{}, ErrClosed
	case t.truth == nowhere:
		return pause{}, fmt.Errorf("%w: fill or write it first", ErrUndefined)
	case t.hostCurrent() && t.host.Lent():
		return pause{}, fmt.Errorf("%w: a fed tensor is in the caller's own memory: read it there", ErrMismatch)
	case t.hostCurrent():
		if err := s.m.hit(t, r, "staging"); err != nil {
			return pause{}, err
		}
		x.host = t.host
		x.host.Pin()
		return pause{}, nil
	case t.truth == inStore:
		return pause{kind: forStore, t: t}, nil
	case t.beingWritten():
		return pause{kind: forWriter, t: t}, nil
	}
	return pause{}, s.copyOut(r, x)
}

// copyOut queues the copy from the device that has the truth.
func (s *Staging) copyOut(r ledger.Reason, x *staged) error {
	m, d := s.m, &s.m.devs[x.t.truth]
	if x.dev != d.index {
		s.free(x)
	}
	if err := s.alloc(x, d); err != nil {
		return err
	}
	if err := m.copyOut(x.t, x.mem, out{kind: ledger.PullBack, reason: r, cause: string(r)}); err != nil {
		return err
	}
	m.host.Touch(x.mem)
	return nil
}

// Wait waits for the copy of tensor i.
func (s *Staging) Wait(ctx context.Context, i int) error {
	x := &s.copies[i]
	h := x.bytes()
	if h == nil {
		return nil
	}
	if err := await(ctx, h); err != nil {
		return fmt.Errorf("staging of %s: %w", x.t.name, err)
	}
	return nil
}

// Arrived reports, without blocking, whether the copy of tensor i has ended, well or
// not.
func (s *Staging) Arrived(i int) bool {
	h := s.copies[i].bytes()
	return h == nil || h.Ready.Done()
}

// Bytes is the copy of tensor i. It is valid from Wait until the next Queue or
// Free of i, and must not be changed.
func (s *Staging) Bytes(i int) []byte {
	if h := s.copies[i].bytes(); h != nil {
		return h.Bytes()
	}
	return nil
}

// bytes is the memory that has the copy; nil if there is none.
func (x *staged) bytes() *hostmem.Block { return cmp.Or(x.host, x.mem) }

// Free frees the copy of tensor i, and its memory once the copy has ended.
func (s *Staging) Free(i int) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.unpin(i)
	s.free(&s.copies[i])
}

// unpin stops using the host's own memory of tensor i.
func (s *Staging) unpin(i int) {
	if h := s.copies[i].host; h != nil {
		s.copies[i].host = nil
		if t := s.copies[i].t; t.truth == inStore && t.host == h {
			s.m.dropHost(t)
		}
		s.m.host.Unpin(h)
	}
}

// alloc gets memory that a device copies to fastest, if there is none yet.
func (s *Staging) alloc(x *staged, d *devState) error {
	if x.mem != nil {
		return nil
	}
	mem, err := s.m.host.Alloc(d.dev, x.t.bytes, x.t.name)
	if err != nil {
		return err
	}
	x.mem, x.dev = mem, d.index
	return nil
}

// free frees the memory of a copy once the copy has ended.
func (s *Staging) free(x *staged) {
	if x.mem != nil {
		s.m.host.Drop(x.mem)
		x.mem = nil
	}
}

// Close frees all memory, that of a queued copy once it has ended. Later copies get new memory.
func (s *Staging) Close() {
	for i := range s.copies {
		s.Free(i)
	}
}
