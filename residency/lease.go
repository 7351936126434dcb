package residency

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// Mode is how a task uses a tensor.
type Mode uint8

// The modes. Write leaves the old contents undefined; ReadWrite changes them in
// place.
const (
	Read Mode = 1 << iota
	Write
	ReadWrite = Read | Write
)

func (m Mode) reads() bool { return m&Read != 0 }

func (m Mode) writes() bool { return m&Write != 0 }

// String is "read", "write" or "read-write".
func (m Mode) String() string {
	switch m {
	case Read:
		return "read"
	case Write:
		return "write"
	case ReadWrite:
		return "read-write"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// Need is a tensor that a task needs on a device. The same tensor may be needed
// twice on one device: both get the same buffer, and the modes add up.
type Need struct {
	Tensor *Tensor
	Device int // index in the list given to New
	Mode   Mode
}

// copy is the tensor's copy on the device.
func (n *Need) copy() *devCopy { return &n.Tensor.copies[n.Device] }

// Lease keeps a task's tensors on its device, from Acquire to Release. The
// zero Lease is ready for use, and it is reused without allocating. It belongs
// to one goroutine.
type Lease struct {
	Buffers []device.Buffer // per need, valid until Release
	Scratch device.Buffer   // nil if no scratch was asked for; valid until Release
	// Ready has the event, per need, with which contents are there that the task
	// writes, for Release. Acquire sets it to zero events: the end of the task.
	Ready []device.Event

	tenant  *Tenant
	held    bool
	stream  device.Stream
	needs   []Need
	scratch shape.Meta     // of Scratch
	done    []device.Event // the last use of Scratch
}

// uses reports whether the lease has something on a device.
func (l *Lease) uses(device int) bool {
	return slices.ContainsFunc(l.needs, func(n Need) bool { return n.Device == device })
}

// manyReaders is the number of queues that read a tensor of a base from which on those that have ended are forgotten.
const manyReaders = 8

// Release ends a lease. done marks the end of the task's work: each tensor that
// it wrote has its truth on the task's device from then on, or from the event in
// l.Ready, a version later, and its other copies are stale.
func (m *Manager) Release(l *Lease, done device.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unlist(l); err != nil {
		return err
	}
	for i := range l.needs {
		n := &l.needs[i]
		c := n.copy()
		m.devs[n.Device].unlease(n.Tensor)
		if n.Tensor.base() != nil && len(c.readers) >= manyReaders {
			c.readers = slices.DeleteFunc(c.readers, device.Event.Done) // of users that have gone
		}
		c.readers.Add(done)
	}
	for i := range l.needs {
		n := &l.needs[i]
		t := n.Tensor
		if c := n.copy(); c.writing {
			t.renew(n.Device)
			c.writing = false
			ready := l.Ready[i]
			if ready.Queue == nil {
				ready = done
			}
			c.write(t.version, ready)
			c.readers.Add(done)
			m.dropHost(t)
		}
		m.freeStale(t, "stale")
		m.rankAll(t)
	}
	m.freeScratch(l, l.needs, done)
	return nil
}

// Abandon ends a lease whose task was not queued: nothing counts as used or
// written. Tensors that were to be written keep their contents.
func (m *Manager) Abandon(l *Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unlist(l); err != nil {
		return err
	}
	for i := range l.needs {
		n := &l.needs[i]
		c := n.copy()
		m.devs[n.Device].unlease(n.Tensor)
		c.writing = false
	}
	for i := range l.needs {
		m.freeStale(l.needs[i].Tensor, "abandoned")
		m.rankAll(l.needs[i].Tensor)
	}
	m.freeScratch(l, l.needs)
	return nil
}

// freeScratch frees the scratch of a lease, or of an attempt at it, that has needs.
// uses is its last use, if there was one.
func (m *Manager) freeScratch(l *Lease, needs []Need, uses ...device.Event) {
	if l.Scratch == nil {
		return
	}
	l.done = append(l.done[:0], uses...)
	d := &m.devs[needs[0].Device]
	d.failed(l.Scratch.Free(l.done...), "scratch")
	l.tenant.on[d.index].count(device.Scratch, -d.takes(l.scratch.Bytes()))
	l.Scratch = nil
}

// unlist takes l off the list of held leases.
func (m *Manager) unlist(l *Lease) error {
	i := slices.Index(m.leases, l)
	if i < 0 {
		return fmt.Errorf("release: %w", ErrNotHeld)
	}
	m.leases = slices.Delete(m.leases, i, i+1)
	l.held, l.stream = false, nil
	l.Buffers = l.Buffers[:0]
	m.line.Call()
	return nil
}
