package residency

import (
	"slices"

	"github.com/berth-ml/berth/engine/paging"
)

// NewUses prepares the order of a step's launches for SetUses. It decides how far
// ahead of their use tensors are fetched, from the memory that each device has.
func (m *Manager) NewUses(launches []Launch) *Uses {
	u := &Uses{launches: slices.Clone(launches), devs: make([]deviceUses, len(m.devs))}
	index := make([]map[*Tensor]int, len(m.devs))
	for d := range index {
		index[d] = map[*Tensor]int{}
	}
	for _, l := range launches {
		u.local = append(u.local, u.add(index, l))
	}
	for d := range u.devs {
		x := &u.devs[d]
		x.describe()
		x.order = paging.NewOrder(&x.trace)
		if limit := m.devs[d].spec.MemoryBytes; limit > 0 && x.trace.Floor() <= limit {
			x.ahead = paging.Ahead(&x.trace, limit)
		}
	}
	return u
}

// SetUses sets the order of uses to come. With it, eviction can choose the copy
// whose memory is free longest for the bytes that move, and tensors are fetched
// ahead of their use. The order repeats until it is set again; nil removes it.
// Acquire advances through it, and tasks that are not in it change nothing.
func (m *Manager) SetUses(u *Uses) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.order.mark(0)
	m.order = order{uses: u}
	m.order.mark(1)
	for d := range m.devs {
		m.devs[d].uses, m.devs[d].now = nil, 0
		if u != nil {
			m.devs[d].uses = &u.devs[d]
		}
	}
}
