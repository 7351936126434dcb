package residency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Store holds contents of tensors that are resident nowhere. Read fills dst
// with all bytes of the named one; any order, and from any goroutine.
type Store interface {
	Read(name string, dst []byte) error
}

// Sequence is a store that can only be read from front to back, such as a
// network stream. It is used by one goroutine at a time.
type Sequence interface {
	// Next moves to the next tensor and tells its name and size; io.EOF ends.
	Next() (name string, bytes int64, err error)
	// Read fills dst with the contents of the tensor that Next told of. Without
	// it, Next passes over them.
	Read(dst []byte) error
}

// source is where a tensor streams from.
type source struct {
	name  string
	store Store
	seq   *sequence
}

// sequence is a Sequence with the tensors that wait for it.
type sequence struct {
	mu     sync.Mutex // held while reading, never with the manager's
	s      Sequence
	wanted map[string]*Tensor // guarded by the manager's lock
}

// FromStore says that the contents of t are in s under a name. They stream in
// when they are needed, and again after they were evicted; the host keeps
// none of them.
func (m *Manager) FromStore(t *Tensor, s Store, name string) error {
	return m.from(t, &source{name: name, store: s})
}

// FromSequence is FromStore for a store that can only be read in order. What is
// passed on the way to a tensor that is needed now is kept on the host for the
// tensors that were declared to come from there; so is what was read.
func (m *Manager) FromSequence(t *Tensor, s Sequence, name string) error {
	m.mu.Lock()
	q := m.seqs[s]
	if q == nil {
		q = &sequence{s: s, wanted: map[string]*Tensor{}}
		m.seqs[s] = q
	}
	q.wanted[name] = t
	m.mu.Unlock()
	return m.from(t, &source{name: name, seq: q})
}

// from makes a store the truth of t.
func (m *Manager) from(t *Tensor, src *source) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refill(t, "stream"); err != nil {
		return err
	}
	t.truth, t.src = inStore, src
	m.recycleStale(t, "stale")
	return nil
}

// stage brings the contents of t from its store to the host, from where device
// d copies. It reads without the manager's lock.
func (m *Manager) stage(ctx context.Context, t *Tensor, d int) error {
	m.mu.Lock()
	src, version := t.src, t.version
	m.mu.Unlock()
	if src == nil {
		return nil // written or dropped meanwhile: the next attempt sees it
	}
	if src.seq != nil {
		return m.readUpTo(src.seq, t, src.name)
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
	h.staged = true
	m.staged += h.bytes
	m.install(t, h, version)
	return nil
}

// readStore reads into fresh host memory.
func (m *Manager) readStore(t *Tensor, d int, read func([]byte) error) (*hostMem, error) {
	m.mu.Lock()
	h, err := m.allocHost(t, d)
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := read(h.buf.Bytes()); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.freeHost(h)
		return nil, err
	}
	return h, nil
}

// install makes h the host's bytes of t, unless t has changed since version or
// someone was faster.
func (m *Manager) install(t *Tensor, h *hostMem, version uint64) {
	h.version = version
	if m.closed || t.truth != inStore || t.version != version || t.hostCurrent() {
		m.freeHost(h)
		return
	}
	m.loseHost(t)
	t.host = h
}

// awaitStaging waits until bytes more may be staged.
func (m *Manager) awaitStaging(ctx context.Context, bytes int64) error {
	for {
		m.mu.Lock()
		m.sweepHost()
		var wait fence
		if m.staged+bytes > m.staging {
			for _, h := range m.graves {
				if h.staged && h.pins == 0 {
					wait = append(wait, h.uses...)
					break
				}
			}
		}
		m.mu.Unlock()
		if len(wait) == 0 {
			return nil
		}
		for _, e := range wait {
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
			return fmt.Errorf("stream-in of %s: %w: the sequence ended before %q: it may have been passed already", t.name, ErrUndefined, name)
		}
		if err != nil {
			return fmt.Errorf("stream-in of %s: %w", t.name, err)
		}
		if err := m.keep(q, at, bytes); err != nil {
			return err
		}
	}
}

// keep reads the entry that a sequence is at, if a tensor waits for it, and
// makes the host its truth, since it cannot be read again.
func (m *Manager) keep(q *sequence, name string, bytes int64) error {
	m.mu.Lock()
	t := q.wanted[name]
	delete(q.wanted, name)
	var version uint64
	if t != nil {
		version = t.version
	}
	waits := t != nil && t.truth == inStore && t.src.seq == q && t.src.name == name
	m.mu.Unlock()
	if !waits {
		return nil
	}
	if bytes != t.bytes {
		return fmt.Errorf("stream-in of %s: %w: entry %q has %d bytes, %v has %d", t.name, ErrMismatch, name, bytes, t.meta, t.bytes)
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
