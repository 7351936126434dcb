package streams

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

// Device implements device.Device. The kind that opened it owns it, and closes it.
type Device struct {
	spec   device.Spec
	config Config
	heap   *heap    // its memory
	hosts  hostList // the host memory that it gave out

	turn     sync.Mutex     // held by the launch that runs: launches of a device never overlap
	launches atomic.Int64   // that have ended
	running  sync.WaitGroup // the goroutines of streams

	// Under heap.mu:
	streams  []*Stream    // the open ones
	launcher device.Queue // of the first stream that launched
	shared   bool         // others have launched too

	compiling    sync.Mutex // one at a time compiles or plans
	cache        *cache
	hits, misses atomic.Int64 // of the cache
}

// New opens a device. Spec.MemoryBytes is its budget, of which it uses whole units.
func New(c Config) (*Device, error) {
	if c.Spec.MemoryBytes < device.MemoryUnit {
		return nil, fmt.Errorf("%s: memory budget of %d bytes: at least %d are needed", c.Spec.ID, c.Spec.MemoryBytes, device.MemoryUnit)
	}
	c.Spec.MemoryBytes -= c.Spec.MemoryBytes % device.MemoryUnit // the rest cannot be used
	var m Memory
	if c.Reserve != nil {
		var err error
		if m, err = c.Reserve(c.Spec.MemoryBytes); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Spec.ID, err)
		}
	}
	d := &Device{cache: newCache(c.Options.Keep)}
	d.spec, d.config, d.heap = c.Spec, c, newHeap(c.Spec, m)
	d.spec.CopyOut, d.spec.LateInputs = c.Bind != nil, c.Bind != nil
	d.hosts.id, d.hosts.memory = c.Spec.ID, c.Host
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
	return d.config.Supports(n)
}

// AllocHost takes host memory. It does not count against the
// device's budget.
func (d *Device) AllocHost(n int64) (device.HostBuffer, error) {
	if err := d.refusal(); err != nil {
		return nil, err
	}
	h, err := d.hosts.alloc(n)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// refusal is the failure of a call to a device that is closed or given up.
func (d *Device) refusal() error {
	d.heap.mu.Lock()
	defer d.heap.mu.Unlock()
	return d.heap.refusal()
}

// NewStream starts a queue. The goroutine behind it ends in Close.
func (d *Device) NewStream(name string) (device.Stream, error) {
	d.heap.mu.Lock()
	defer d.heap.mu.Unlock()
	if err := d.heap.refusal(); err != nil {
		return nil, fmt.Errorf("stream %q: %w", name, err)
	}
	s := newStream(d, name)
	d.streams = append(d.streams, s)
	return s, nil
}

// forget takes a stream out that has closed.
func (d *Device) forget(s *Stream) {
	d.heap.mu.Lock()
	defer d.heap.mu.Unlock()
	d.streams = slices.DeleteFunc(d.streams, func(o *Stream) bool { return o == s })
}

// Passed tells that the caller has waited for e.
func (d *Device) Passed(e device.Event) {
	d.heap.mu.Lock()
	defer d.heap.mu.Unlock()
	d.heap.space.Passed(e)
}

// Stats is the memory and the counters at this instant.
func (d *Device) Stats() device.Stats {
	d.heap.mu.Lock()
	defer d.heap.mu.Unlock()
	s := d.heap.stats
	s.Launches = d.launches.Load()
	s.CompileHits, s.CompileMisses, s.Executables = d.hits.Load(), d.misses.Load(), d.cache.count()
	return s
}

// Close stops the device. It releases the buffers and streams that are still
// open, and names them in its error.
func (d *Device) Close() error {
	h := d.heap
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return h.errClosed()
	}
	h.closed = true
	lost := h.lost != nil
	streams := slices.Clone(d.streams)
	h.mu.Unlock()
	d.hosts.close()
	var errs []error
	for _, s := range streams {
		errs = append(errs, fmt.Errorf("%s: stream %q was still open: close it first", d.spec.ID, s.name), s.Close())
	}
	if lost {
		go d.releaseLater()
		return errors.Join(append(errs, d.hosts.freeAll())...)
	}
	return errors.Join(append(errs, d.release())...)
}

// release frees everything, once no queued operation uses it any more.
func (d *Device) release() error {
	d.compiling.Lock() // a Compile that runs uses the device until it ends
	defer d.compiling.Unlock()
	var errs []error
	if d.config.Stop != nil {
		errs = append(errs, d.config.Stop())
	}
	h := d.heap
	errs = append(errs, h.freeAll(), d.hosts.freeAll())
	h.mu.Lock()
	defer h.mu.Unlock()
	d.cache.forget()
	h.leave()
	return errors.Join(append(errs, h.close())...)
}

// releaseLater is release for a device that was given up: an operation that runs
// still uses its memory and its threads. It ends when the last operation does.
func (d *Device) releaseLater() {
	d.running.Wait()
	_ = d.release() // nobody is left to be told
}

// Running is the operation that has run longest.
func (d *Device) Running() (longest device.Command, ok bool) {
	d.heap.mu.Lock()
	defer d.heap.mu.Unlock()
	for _, s := range d.streams {
		if c := s.command(); c.What != "" && (!ok || c.Since.Before(longest.Since)) {
			longest, ok = c, true
		}
	}
	return longest, ok
}

// GiveUp writes the device off.
func (d *Device) GiveUp(cause error) {
	h := d.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != nil {
		return
	}
	h.lost = cause
	h.stats.WrittenOff = h.stats.Live
	for _, s := range d.streams {
		s.giveUp(cause)
	}
	h.leave() // ends the waits of streams, in which they do not look at their queues
}

// alone tells whether no other stream than q's has launched on the device.
func (d *Device) alone(q device.Queue) bool {
	d.heap.mu.Lock()
	defer d.heap.mu.Unlock()
	if d.launcher == nil {
		d.launcher = q
	}
	d.shared = d.shared || d.launcher != q
	return !d.shared
}
