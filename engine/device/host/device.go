package host

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// Kernel computes one cluster. It is run by one goroutine at a time.
type Kernel interface {
	// ScratchBytes is how much working memory Run needs.
	ScratchBytes() int64
	// Run computes out from in: contiguous, aligned to 64 bytes. out[i] may be
	// the memory of an input where the cluster's Alias says so.
	Run(in, out [][]byte, scratch []byte) error
}

// Config is what makes a kind of this machinery.
type Config struct {
	Spec device.Spec // CopyOut is set by New
	Sync bool        // finish each operation before the next is queued
	// OnSpan, if not nil, is told of every operation as it ends.
	OnSpan func(device.Span)
	// OnKernel, if not nil, is told of every kernel as it ends.
	OnKernel func(w *device.Work, took time.Duration)
	// Bind makes the kernel of a cluster, or fails with device.ErrUnsupported.
	// Without it the device computes nothing: memory is only counted, copies
	// move nothing, and nothing can be copied out.
	Bind func(c *fuse.Cluster) (Kernel, error)
	// Stop, if not nil, is called once when the last stream has ended.
	Stop func()
}

// Device implements device.Device.
type Device struct {
	spec   device.Spec
	config Config

	compiling sync.Mutex // one Compile at a time
	loaded    map[string]*executable

	running sync.Mutex // one launch at a time; guards scratch and executables' bindings
	scratch span
	laid    int // how often scratch was laid out

	launches atomic.Int64
	writes   atomic.Uint64 // of buffers

	mu      sync.Mutex
	idle    sync.Cond // on mu: a buffer's pending reached 0 after Close
	dropped sync.Cond // on mu: a kernel gave back what it kept
	closed  bool
	arena   *arena
	stats   device.Stats
	buffers *buffer
	hosts   *hostBuffer
	streams []*Stream
	stamp   uint64

	launcher  *Stream // the first that launched
	launchers bool    // there are several
}

// New opens a device. Spec.MemoryBytes is its budget.
func New(c Config) (*Device, error) {
	if c.Spec.MemoryBytes < 1 {
		return nil, fmt.Errorf("%s: memory budget of %d bytes: at least 1 is needed", c.Spec.ID, c.Spec.MemoryBytes)
	}
	a, err := newArena(c.Spec.MemoryBytes, c.Bind != nil)
	if err != nil {
		return nil, fmt.Errorf("%s: reserving %d bytes of address space: %w: lower the device's memory budget", c.Spec.ID, c.Spec.MemoryBytes, err)
	}
	d := &Device{spec: c.Spec, config: c, arena: a, loaded: map[string]*executable{}}
	d.spec.CopyOut = c.Bind != nil
	d.idle.L, d.dropped.L = &d.mu, &d.mu
	return d, nil
}

// ID never changes.
func (d *Device) ID() device.ID { return d.spec.ID }

// Spec never changes.
func (d *Device) Spec() device.Spec { return d.spec }

// Supports tells whether the device can run a node.
func (d *Device) Supports(n *graph.Node) error {
	if fuse.IsView(n) || d.config.Bind == nil {
		return nil
	}
	_, err := d.config.Bind(fuse.Single(n))
	return err
}

// Alloc reserves memory with undefined contents.
func (d *Device) Alloc(m shape.Meta, use device.Usage) (device.Buffer, error) {
	if err := m.Shape.Validate(); err != nil || m.DType.Size() == 0 || int(use) >= device.NumUsages {
		return nil, fmt.Errorf("%s: cannot allocate %v (%v)", d.spec.ID, m, err)
	}
	b := &buffer{dev: d, meta: m, usage: use, size: m.Bytes()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("%s: %w", d.spec.ID, device.ErrClosed)
	}
	var err error
	if b.off, err = d.reserve(b.size, use); err != nil {
		return nil, fmt.Errorf("%w, for a %s buffer %v", err, use, m)
	}
	if d.closed { // while reserve waited
		d.unreserve(b.off, b.size, use)
		return nil, fmt.Errorf("%s: %w", d.spec.ID, device.ErrClosed)
	}
	b.data = d.arena.bytes(b.off, b.size)
	d.stats.Allocs++
	if b.next = d.buffers; b.next != nil {
		b.next.prev = b
	}
	d.buffers = b
	return b, nil
}

// reserve takes and counts a block, if need be from what kernels keep. It needs
// d.mu, which it may give up for a while unless d.running is held.
func (d *Device) reserve(n int64, use device.Usage) (int64, error) {
	s := &d.stats
	off, ok := d.take(n)
	for !ok && d.dropKept(n) {
		off, ok = d.take(n)
	}
	if !ok {
		return 0, fmt.Errorf("%s: %w: needed %d bytes, used %d, free %d of a budget of %d: use smaller microbatches, more devices or a larger budget",
			d.spec.ID, device.ErrOutOfMemory, n, s.Live, d.spec.MemoryBytes-s.Live, d.spec.MemoryBytes)
	}
	d.count(n, use)
	return off, nil
}

// count counts a block that was taken. It needs d.mu.
func (d *Device) count(n int64, use device.Usage) {
	s := &d.stats
	s.Live += n
	s.LiveBy[use] += n
	s.Peak = max(s.Peak, s.Live)
	s.PeakBy[use] = max(s.PeakBy[use], s.LiveBy[use])
}

// take takes a block if there is room. It needs d.mu.
func (d *Device) take(n int64) (off int64, ok bool) {
	if d.stats.Live+n > d.spec.MemoryBytes {
		return 0, false
	}
	return d.arena.take(n)
}

// unreserve is the opposite of reserve. It needs d.mu.
func (d *Device) unreserve(off, n int64, use device.Usage) {
	d.arena.give(off, n)
	d.stats.Live -= n
	d.stats.LiveBy[use] -= n
}

// free takes a buffer out of the device. It needs d.mu.
func (d *Device) free(b *buffer) {
	d.unreserve(b.off, b.size, b.usage)
	for e := b.kept; e != nil; e = e.next {
		if e.held {
			d.drop(e)
		}
	}
	b.data, b.kept = nil, nil
	if b.prev == nil {
		d.buffers = b.next
	} else {
		b.prev.next = b.next
	}
	if b.next != nil {
		b.next.prev = b.prev
	}
	b.prev, b.next = nil, nil
}

// AllocHost maps host memory, page-aligned and zeroed. It is not counted
// against the device's budget.
func (d *Device) AllocHost(n int64) (device.HostBuffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("%s: host buffer of %d bytes", d.spec.ID, n)
	}
	mapped, err := mapAnonymous(n)
	if err != nil {
		return nil, fmt.Errorf("%s: host buffer of %d bytes: %w", d.spec.ID, n, err)
	}
	adviseHuge(mapped)
	h := &hostBuffer{dev: d, mapped: mapped, data: mapped[:n:n]}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errors.Join(fmt.Errorf("%s: %w", d.spec.ID, device.ErrClosed), h.discard())
	}
	defer d.mu.Unlock()
	if h.next = d.hosts; h.next != nil {
		h.next.prev = h
	}
	d.hosts = h
	return h, nil
}

// discard frees a host buffer that is in no list.
func (h *hostBuffer) discard() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.freed = true
	return h.unmapIfUnused()
}

// forgetHost takes a freed host buffer out of the list.
func (d *Device) forgetHost(h *hostBuffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h.prev == nil {
		if d.hosts != h {
			return // Close has emptied the list
		}
		d.hosts = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.prev, h.next = nil, nil
}

// Stats is the memory and the counters at this instant.
func (d *Device) Stats() device.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Launches = d.launches.Load()
	return s
}

// Close stops the device. What is still open is released, and named in the
// error.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return fmt.Errorf("%s: %w", d.spec.ID, device.ErrClosed)
	}
	d.closed = true
	streams := append([]*Stream(nil), d.streams...)
	d.mu.Unlock()
	var errs []error
	for _, s := range streams {
		errs = append(errs, fmt.Errorf("%s: stream %q was still open: close it first", d.spec.ID, s.name), s.Close())
	}
	if d.config.Stop != nil {
		d.config.Stop()
	}
	d.compiling.Lock()
	defer d.compiling.Unlock()
	d.running.Lock()
	defer d.running.Unlock()
	errs = append(errs, d.releaseBuffers(), d.releaseHosts())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unreserve(d.scratch.off, d.scratch.size, device.Scratch)
	d.scratch, d.loaded = span{}, nil
	return errors.Join(append(errs, d.arena.close())...)
}

// releaseBuffers deletes what is left, after peers have ended their copies
// from it.
func (d *Device) releaseBuffers() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for busy := true; busy; {
		busy = false
		for b := d.buffers; b != nil; b = b.next {
			busy = busy || b.pending > 0
		}
		if busy {
			d.idle.Wait()
		}
	}
	var leaks []string
	var bytes int64
	for b := d.buffers; b != nil; b = d.buffers {
		leaks, bytes = append(leaks, fmt.Sprintf("%s %v", b.usage, b.meta)), bytes+b.size
		b.state = deleted
		d.free(b)
	}
	if leaks == nil {
		return nil
	}
	return fmt.Errorf("%s: %d buffers with %d bytes were not deleted: %s", d.spec.ID, len(leaks), bytes, some(leaks))
}

// releaseHosts frees the host buffers that are left.
func (d *Device) releaseHosts() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var leaks []string
	var errs []error
	for h := d.hosts; h != nil; h = d.hosts {
		d.hosts = h.next
		h.prev, h.next = nil, nil
		leaks = append(leaks, fmt.Sprintf("%d bytes", len(h.data)))
		errs = append(errs, h.discard())
	}
	if leaks != nil {
		errs = append(errs, fmt.Errorf("%s: %d host buffers were not freed: %s", d.spec.ID, len(leaks), some(leaks)))
	}
	return errors.Join(errs...)
}

// some joins the first few of a list.
func some(list []string) string {
	const most = 8
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}
