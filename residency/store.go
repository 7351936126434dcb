package residency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/berth-ml/berth/residency/hostmem"
)

// Store holds contents of tensors that are resident nowhere. Read fills dst
// with all bytes of the named one; any order, and from any goroutine.
type Store interface {
	Read(name string, dst []byte) error
}

// Sequence is a store that can only be read from front to back, such as a
// compressed file. It is used by one goroutine at a time.
type Sequence interface {
	// Next moves to the next entry and tells its name and size; io.EOF ends. ctx
	// ends passing over the one before, which may be long.
	Next(ctx context.Context) (name string, bytes int64, err error)
	// Read fills dst with the contents of the entry that Next told of. Without
	// it, Next passes over them.
	Read(dst []byte) error
	// Rewind goes back to before the first entry.
	Rewind() error
}

// source is the store entry that a tensor streams from. The tensor owns it. Either store or seq
// is set.
type source struct {
	name  string
	store Store
	seq   *sequence
}

// sequence is a Sequence with the tensors that stream from it, whose sources share it.
type sequence struct {
	turn    chan struct{} // has a value while nobody reads
	s       Sequence
	tensors map[string]*Tensor // by the names of their entries; it does not change
}

// newSequence makes a sequence that nobody reads.
func newSequence(s Sequence, ts map[string]*Tensor) *sequence {
	q := &sequence{turn: make(chan struct{}, 1), s: s, tensors: ts}
	q.turn <- struct{}{}
	return q
}

// begin waits until nobody else reads.
func (q *sequence) begin(ctx context.Context) error {
	select {
	case <-q.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end lets others read.
func (q *sequence) end() { q.turn <- struct{}{} }

// FromStore makes an entry of s the contents of t. They stream in when they are
// needed, and again after eviction. The host does not keep them.
func (m *Manager) FromStore(t *Tensor, s Store, name string) error {
	return m.from(t, &source{name: name, store: s})
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
	h, err := m.readStore(ctx, t, d, func(dst []byte) error { return src.store.Read(src.name, dst) })
	if err != nil {
		return fmt.Errorf("stream-in of %s from store entry %q: %w", t.name, src.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.Stage(h)
	m.install(t, h, version)
	return nil
}

// readStore reads into fresh host memory.
func (m *Manager) readStore(ctx context.Context, t *Tensor, d int, read func([]byte) error) (*hostmem.Block, error) {
	m.mu.Lock()
	h, err := m.host.Alloc(m.devs[d].dev, t.bytes, t.name)
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err = writable(ctx, h); err == nil {
		err = read(h.Bytes())
	}
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.host.Drop(h)
		return nil, err
	}
	return h, nil
}

// install makes h the host's bytes of t. It frees h instead if t has changed
// since version, or has host bytes by now.
func (m *Manager) install(t *Tensor, h *hostmem.Block, version uint64) {
	h.Version = version
	if t.tenant.gone || t.truth != inStore || t.version != version || t.hostCurrent() {
		m.host.Free(h)
		return
	}
	m.dropHost(t)
	t.host = h
}

// awaitStaging waits until bytes more may be staged.
func (m *Manager) awaitStaging(ctx context.Context, bytes int64) error {
	for {
		m.mu.Lock()
		copies := m.host.Blockers(bytes)
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

// FromSequence is FromStore for entries of a store that can only be read in
// order: ts has the tensors by the names of their entries. To reach an entry, all
// before it are passed, from the front if it was passed already. Those passed on
// the way stay on the host until a device needs them, if no device has them: those
// that are needed next, in half of ManagerOptions.StagingBytes.
func (m *Manager) FromSequence(s Sequence, ts map[string]*Tensor) error {
	q := newSequence(s, ts)
	for _, name := range slices.Sorted(maps.Keys(ts)) {
		if err := m.from(ts[name], &source{name: name, seq: q}); err != nil {
			return err
		}
	}
	return nil
}

// readUpTo reads a sequence until t has its contents.
func (m *Manager) readUpTo(ctx context.Context, q *sequence, t *Tensor, d int) error {
	if err := q.begin(ctx); err != nil {
		return err
	}
	defer q.end()
	for rewound := false; m.lacks(t, q); {
		if err := ctx.Err(); err != nil {
			return err
		}
		name, bytes, err := q.s.Next(ctx)
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
	h, err := m.readStore(ctx, t, d, q.s.Read)
	if err != nil {
		return fmt.Errorf("entry of %s: %w", t.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.Stage(h)
	m.install(t, h, version)
	if t.host == h {
		h.Kept = t != wanted
	}
	return nil
}

// worthKeeping reports whether the entry of t, which is passed on the way to
// another, should be read: only the sequence has it, and the host has room. Kept
// ones that are needed later make room.
func (m *Manager) worthKeeping(t *Tensor, q *sequence) bool {
	if !m.lacks(t, q) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range t.tenant.used {
		if t.current(&t.copies[d]) {
			return false
		}
	}
	for next := m.nextUse(t); !m.host.CanKeep(t.bytes); {
		v := m.lastKept(q)
		if v == nil || m.nextUse(v) <= next {
			return false
		}
		m.dropHost(v)
	}
	return true
}

// lastKept is the kept tensor of a sequence that is needed last; nil if there is
// none.
func (m *Manager) lastKept(q *sequence) (last *Tensor) {
	most := -1
	for _, t := range q.tensors {
		if h := t.host; h == nil || !h.Kept || h.Pins() > 0 || t.truth != inStore || t.src.seq != q {
			continue
		}
		n := m.nextUse(t)
		if last == nil || cmp.Or(cmp.Compare(n, most), cmp.Compare(t.name, last.name)) > 0 {
			last, most = t, n
		}
	}
	return last
}

// nextUse counts the launches until t is used on any device, by a launch whose call
// of Acquire has not ended or a later one.
func (m *Manager) nextUse(t *Tensor) int {
	next := unknownUse
	for i := range m.devs {
		d := &m.devs[i]
		if c := d.copy(t); c.object > 0 {
			next = min(next, d.of(t).place.soonest(c.object))
		}
	}
	return next
}
