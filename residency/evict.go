package residency

import "github.com/berth-ml/berth/residency/ledger"

// makeRoom evicts copies until so many bytes more fit on a device, by the sums
// alone: memory in pieces is no matter. It spares copies that are used within that
// many launches after the present one. It reports false, and evicts nothing, if the
// others are too few.
func (m *Manager) makeRoom(d *devState, bytes int64, after int) (bool, error) {
	over := bytes - d.freeBytes()
	if over <= 0 {
		return true, nil
	}
	v := &m.scratch.victims
	if !v.choose(d, m.tenants, m.clock, over, after) {
		return false, nil
	}
	if m.audit != nil {
		m.audit(d, over, after)
	}
	for i, t := range v.list {
		if err := m.evict(d, t); err != nil {
			for _, kept := range v.list[i:] {
				d.rank(kept) // choosing it has taken it out of its queue
			}
			return false, err
		}
	}
	return true, nil
}

// evictOne evicts the best victim on a device. It reports false if there is none.
func (m *Manager) evictOne(d *devState) (bool, error) {
	return m.makeRoom(d, d.freeBytes()+1, 0)
}

// evict frees a copy on a device, and spills it to the host first if there is no
// other and its contents were not discarded.
func (m *Manager) evict(d *devState, t *Tensor) error {
	if t.truth == d.index {
		to := t.otherTruth(d.index)
		if to == nowhere && !t.discarded {
			if err := m.toHost(t, out{kind: ledger.Spill, reason: ledger.SpillReason, cause: "over budget"}); err != nil {
				return err
			}
			to = onHost
			t.tenant.spills.add(spill{t, d.id, t.host.Ready})
		}
		t.truth = to
	}
	d.free(t, "evicted")
	m.rankAll(t) // other copies may be the only ones now
	return nil
}
