package residency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// FromStore makes an entry of s the contents of t. They stream in when they are
// needed, and again after eviction. The host does not keep them.
func (m *Manager) FromStore(t *Tensor, s Store, name string) error {
	return m.from(t, &source{name: name, store: s})
}

// FromSequence is FromStore for entries of a store that can only be read in
// order: ts has the tensors by the names of their entries. To reach an entry, all
// before it are passed, from the front if it was passed already. Those passed on
// the way stay on the host until a device needs them, if no device has them and
// they take at most half of ManagerOptions.StagingBytes together.
func (m *Manager) FromSequence(s Sequence, ts map[string]*Tensor) error {
	q := &sequence{s: s, tensors: ts}
	for _, name := range slices.Sorted(maps.Keys(ts)) {
		if err := m.from(ts[name], &source{name: name, seq: q}); err != nil {
			return err
		}
	}
	return nil
}

// from makes a store the truth of t.
func (m *Manager) from(t *Tensor, src *source) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refill(t, "stream"); err != nil {
		return err
	}
	t.truth, t.src = inStore, src
	return nil
}

// streamIn reads the contents of t from its store to the host, to memory that
// device d copies from. It reads without the manager's lock.
func (m *Manager) streamIn(ctx context.Context, t *Tensor, d int) error {
	m.mu.Lock()
	src, version := t.src, t.version
	m.mu.Unlock()
	if src == nil {
		return nil // written or dropped meanwhile: the next attempt sees it
	}
	if src.seq != nil {
		return m.readUpTo(ctx, src.seq, t, d)
	}
	if err := m.awaitStaging(ctx, t.bytes); err != nil {
		return err
	}
	h, err := m.readStore(t, d, func(dst []byte) error { return src.store.Read(src.name, dst) })
	if err != nil {
		return fmt.Errorf("stream-in of %s from store entry %q: %w", t.name, src.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.stage(h)
	m.install(t, h, version)
	return nil
}

// readStore reads into fresh host memory.
func (m *Manager) readStore(t *Tensor, d int, read func([]byte) error) (*hostMem, error) {
	m.mu.Lock()
	h, err := m.host.alloc(m.devs[d].dev, t.bytes, t.name)
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := read(h.buf.Bytes()); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.host.free(h)
		return nil, err
	}
	return h, nil
}

// install makes h the host's bytes of t. It frees h instead if t has changed
// since version, or has host bytes by now.
func (m *Manager) install(t *Tensor, h *hostMem, version uint64) {
	h.version = version
	if t.tenant.gone || t.truth != inStore || t.version != version || t.hostCurrent() {
		m.host.free(h)
		return
	}
	m.dropHost(t)
	t.host = h
}

// awaitStaging waits until bytes more may be staged.
func (m *Manager) awaitStaging(ctx context.Context, bytes int64) error {
	for {
		m.mu.Lock()
		copies := m.host.blockers(bytes)
		m.mu.Unlock()
		if len(copies) == 0 {
			return nil
		}
		for _, e := range copies {
			if err := ended(ctx, e); err != nil {
				return err
			}
		}
	}
}

// readUpTo reads a sequence until t has its contents.
func (m *Manager) readUpTo(ctx context.Context, q *sequence, t *Tensor, d int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for rewound := false; m.lacks(t, q); {
		if err := ctx.Err(); err != nil {
			return err
		}
		name, bytes, err := q.s.Next()
		switch {
		case errors.Is(err, io.EOF) && !rewound:
			rewound, err = true, q.s.Rewind()
		case errors.Is(err, io.EOF):
			err = fmt.Errorf("%w: the sequence has no such entry", ErrUndefined)
		case err == nil:
			err = m.readEntry(ctx, q, q.tensors[name], bytes, t, d)
		}
		if err != nil {
			return fmt.Errorf("stream-in of %s: %w", t.name, err)
		}
	}
	return nil
}

// lacks reports whether the contents of t are in a sequence alone.
func (m *Manager) lacks(t *Tensor, q *sequence) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return t.truth == inStore && t.src.seq == q && !t.hostCurrent()
}

// readEntry reads the entry of t that a sequence is at, on the way to the one that
// is wanted. Without a tensor, or one worth keeping, it reads nothing.
func (m *Manager) readEntry(ctx context.Context, q *sequence, t *Tensor, bytes int64, wanted *Tensor, d int) error {
	if t == nil || t != wanted && !m.worthKeeping(t, q) {
		return nil
	}
	if bytes != t.bytes {
		return fmt.Errorf("%w: the entry of %s has %d bytes, but %v has %d", ErrMismatch, t.name, bytes, t.meta, t.bytes)
	}
	if t == wanted {
		if err := m.awaitStaging(ctx, bytes); err != nil {
			return err
		}
	}
	m.mu.Lock()
	version := t.version
	m.mu.Unlock()
	h, err := m.readStore(t, d, q.s.Read)
	if err != nil {
		return fmt.Errorf("entry of %s: %w", t.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.stage(h)
	m.install(t, h, version)
	return nil
}

// worthKeeping reports whether the entry of t, which is passed on the way to
// another, should be read: only the sequence has it, and the host has room.
func (m *Manager) worthKeeping(t *Tensor, q *sequence) bool {
	if !m.lacks(t, q) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for d := range t.copies {
		if t.current(&t.copies[d]) {
			return false
		}
	}
	x := &m.host
	x.sweep()
	return x.staged+t.bytes <= x.limit/2 && (x.most == 0 || x.used+t.bytes <= x.most)
}
