package residency

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// FromStore makes an entry of s the contents of t. They stream in when they are
// needed, and again after eviction. The host does not keep them.
func (m *Manager) FromStore(t *Tensor, s Store, name string) error {
	return m.from(t, &source{name: name, store: s})
}

// FromSequence is FromStore for a store that can only be read in order. To reach
// the entry that is needed, it reads all entries before it. It keeps on the host
// that entry, and each of the others that a tensor was given by FromSequence.
func (m *Manager) FromSequence(t *Tensor, s Sequence, name string) error {
	m.mu.Lock()
	q := t.tenant.seqs[s]
	if q == nil {
		q = &sequence{s: s, wanted: map[string]*Tensor{}}
		t.tenant.seqs[s] = q
	}
	q.wanted[name] = t
	m.mu.Unlock()
	return m.from(t, &source{name: name, seq: s})
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
	var seq *sequence
	if src != nil && src.seq != nil {
		seq = t.tenant.seqs[src.seq]
	}
	m.mu.Unlock()
	if src == nil {
		return nil // written or dropped meanwhile: the next attempt sees it
	}
	if seq != nil {
		return m.readUpTo(seq, t, src.name)
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
func (m *Manager) readUpTo(q *sequence, t *Tensor, name string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		m.mu.Lock()
		there := t.truth != inStore
		m.mu.Unlock()
		if there {
			return nil
		}
		at, bytes, err := q.s.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("stream-in of %s: %w: the sequence ended before entry %q: it is missing, or was passed before FromSequence asked for it", t.name, ErrUndefined, name)
		}
		if err != nil {
			return fmt.Errorf("stream-in of %s: %w", t.name, err)
		}
		if err := m.keepNext(q, at, bytes); err != nil {
			return err
		}
	}
}

// keepNext reads the entry that a sequence is at, if a tensor waits for it, and
// makes the host its truth, since it cannot be read again.
func (m *Manager) keepNext(q *sequence, name string, bytes int64) error {
	m.mu.Lock()
	t := q.wanted[name]
	delete(q.wanted, name)
	var version uint64
	if t != nil {
		version = t.version
	}
	waits := t != nil && t.truth == inStore && t.src.seq == q.s && t.src.name == name
	m.mu.Unlock()
	if !waits {
		return nil
	}
	if bytes != t.bytes {
		return fmt.Errorf("stream-in of %s: %w: entry %q has %d bytes, but %v has %d", t.name, ErrMismatch, name, bytes, t.meta, t.bytes)
	}
	h, err := m.readStore(t, 0, q.s.Read)
	if err != nil {
		return fmt.Errorf("stream-in of %s from sequence entry %q: %w", t.name, name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.install(t, h, version)
	if t.host == h {
		h.streamed = true
		t.truth, t.src = onHost, nil
	}
	return nil
}
