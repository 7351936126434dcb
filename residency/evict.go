package residency

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// makeRoom evicts copies until so many bytes more fit on a device, by the sums
// alone: memory in pieces is no matter. It spares copies that are used within that
// many launches after the present one. It reports false, and evicts nothing, if the
// others are too few.
func (m *Manager) makeRoom(d *devState, bytes int64, after int) (bool, error) {
	over := bytes - d.freeBytes()
	if over <= 0 {
		return true, nil
	}
	m.scratch.victims = m.scratch.victims[:0]
	if d.evictor != nil {
		over = m.chosenBy(d.evictor, d, over, after)
	} else {
		over = m.chosen(d, over, after)
	}
	if over > 0 {
		return false, nil
	}
	for i, t := range m.scratch.victims {
		if err := m.evict(d, t); err != nil {
			for _, kept := range m.scratch.victims[i:] {
				d.rank(kept)
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

// chosenBy lets a policy choose one victim after the other. It returns the bytes
// that are still missing.
func (m *Manager) chosenBy(e device.Evictor, d *devState, bytes int64, after int) int64 {
	x := &m.scratch
	x.choice, x.owners = x.choice[:0], x.owners[:0]
	for _, t := range d.residents {
		next, _ := d.next(t, m.clock)
		if next >= unknownUse {
			next = device.Never
		}
		if d.copy(t).locked() || next <= after {
			continue
		}
		x.owners = append(x.owners, t)
		x.choice = append(x.choice, device.Candidate{
			Name: t.name, Usage: t.usage, Bytes: t.bytes, Clean: d.clean(t), NextUse: next, LastUse: d.copy(t).used,
		})
	}
	for bytes > 0 && len(x.choice) > 0 {
		i, last := e.Victim(x.choice), len(x.choice)-1
		if i < 0 || i > last {
			panic(fmt.Sprintf("BUG: %s chose victim %d of %d", d.id, i, last+1))
		}
		x.victims = append(x.victims, x.owners[i])
		bytes -= d.takes(x.owners[i].bytes)
		x.choice[i], x.owners[i] = x.choice[last], x.owners[last]
		x.choice, x.owners = x.choice[:last], x.owners[:last]
	}
	return bytes
}

// evict frees a copy on a device, and spills it to the host first if there is no
// other.
func (m *Manager) evict(d *devState, t *Tensor) error {
	if t.truth == d.index {
		to := t.otherTruth(d.index)
		if to == nowhere {
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
