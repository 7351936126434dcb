package residency

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/residency/hostmem"
)

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
