package streams

import (
	"errors"
	"fmt"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/units"
)

// hostBuffer is host memory that a device gave out: a mapping of its own, page-aligned. Who
// asked for it owns it.
type hostBuffer struct {
	list *hostList
	data []byte // as long as asked for; the mapping may be longer

	mu         sync.Mutex
	mapped     []byte // the mapping; nil once it is unmapped
	pending    int    // queued copies that use it
	freed      bool
	prev, next *hostBuffer // in list, under list.mu
}

// Bytes is the memory, nil once freed.
func (h *hostBuffer) Bytes() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.freed {
		return nil
	}
	return h.data
}

// Free gives the memory back: now, or when the last queued copy has ended.
func (h *hostBuffer) Free() error {
	h.mu.Lock()
	if h.freed {
		h.mu.Unlock()
		return h.errDeleted()
	}
	h.freed = true
	err := h.unmapIfUnused()
	h.mu.Unlock()
	h.list.remove(h)
	return err
}

func (h *hostBuffer) errDeleted() error {
	return fmt.Errorf("%s: host buffer of %d bytes: %w", h.list.id, len(h.data), device.ErrDeleted)
}

// discard frees a host buffer that is in no list.
func (h *hostBuffer) discard() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.freed = true
	return h.unmapIfUnused()
}

// pin keeps the memory until unpin, through a queued copy.
func (h *hostBuffer) pin() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.freed {
		return h.errDeleted()
	}
	h.pending++
	return nil
}

// unpin ends one copy's use.
func (h *hostBuffer) unpin() {
	h.mu.Lock()
	h.pending--
	err := h.unmapIfUnused()
	h.mu.Unlock()
	if err != nil {
		h.list.failed(err)
	}
}

// unmapIfUnused unmaps the memory once it is freed and no copy uses it. It
// needs mu.
func (h *hostBuffer) unmapIfUnused() error {
	if !h.freed || h.pending > 0 || h.mapped == nil {
		return nil
	}
	mapped := h.mapped
	h.mapped = nil
	return h.list.memory.Unmap(mapped)
}

// hostList is the host buffers that a device has given out. The device owns it.
type hostList struct {
	id     device.ID
	memory HostMemory
	mu     sync.Mutex
	closed bool
	first  *hostBuffer
	errs   []error // of memory that could not be given back after its last copy
}

// failed keeps an error for freeAll: a driver that has lost its device may not unmap
// memory.
func (l *hostList) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, fmt.Errorf("%s: unmapping a host buffer: %w", l.id, err))
}

// alloc maps n bytes, page-aligned. They do not count against the device's
// budget.
func (l *hostList) alloc(n int64) (*hostBuffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("%s: a host buffer cannot have %d bytes: give 0 or more", l.id, n)
	}
	mapped, err := l.memory.Map(n)
	if err != nil {
		return nil, fmt.Errorf("%s: host buffer of %s: %w", l.id, units.Bytes(n), err)
	}
	h := &hostBuffer{list: l, mapped: mapped, data: mapped[:n:n]}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.Join(fmt.Errorf("%s: %w", l.id, device.ErrClosed), h.discard())
	}
	if h.next = l.first; h.next != nil {
		h.next.prev = h
	}
	l.first = h
	return h, nil
}

// remove takes a freed host buffer out of the list.
func (l *hostList) remove(h *hostBuffer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.prev == nil {
		if l.first != h {
			return // freeAll has emptied the list
		}
		l.first = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.prev, h.next = nil, nil
}

// close makes further allocations fail.
func (l *hostList) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// freeAll frees the host buffers that are left. Its error names them.
func (l *hostList) freeAll() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var leaks []string
	errs := l.errs
	l.errs = nil
	for h := l.first; h != nil; h = l.first {
		l.first = h.next
		h.prev, h.next = nil, nil
		leaks = append(leaks, fmt.Sprintf("%d bytes", len(h.data)))
		errs = append(errs, h.discard())
	}
	if leaks != nil {
		errs = append(errs, fmt.Errorf("%s: %d host buffers were not freed: %s", l.id, len(leaks), some(leaks)))
	}
	return errors.Join(errs...)
}

// pinHost keeps host memory through a queued copy of n bytes. Memory that is
// not of this package is its owner's to keep.
func pinHost(h device.HostBuffer, n int64) error {
	if h == nil {
		return fmt.Errorf("host buffer is nil")
	}
	if have := int64(len(hostBytes(h))); have != n {
		return fmt.Errorf("host buffer has %d bytes, the device buffer %d: they must be equal", have, n)
	}
	if own, ok := device.Whole(h).(*hostBuffer); ok {
		return own.pin()
	}
	return nil
}

// unpinHost ends a copy's use of host memory, if that is of this package.
func unpinHost(h device.HostBuffer) {
	if own, ok := device.Whole(h).(*hostBuffer); ok {
		own.unpin()
	}
}

// hostBytes is the memory of a pinned host buffer, also after Free.
func hostBytes(h device.HostBuffer) []byte {
	if own, ok := h.(*hostBuffer); ok {
		return own.data
	}
	return h.Bytes()
}
