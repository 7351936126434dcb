package residency

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
)

// makeRoom evicts copies until so many bytes more fit on a device, by the sums
// alone: memory in pieces is no matter. It spares copies that are used within that
// many launches after the present one. It reports false, and evicts nothing, if the
// others are too few.
func (m *Manager) makeRoom(d *devState, bytes int64, after int) (bool, error) {
	over := d.dev.Stats().Live + bytes - d.spec.MemoryBytes
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
	for _, t := range m.scratch.victims {
		if err := m.evict(d, t); err != nil {
			return false, err
		}
	}
	return true, nil
}

// evictOne evicts the best victim on a device. It reports false if there is none.
func (m *Manager) evictOne(d *devState) (bool, error) {
	free := d.spec.MemoryBytes - d.dev.Stats().Live
	return m.makeRoom(d, free+1, 0)
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

// lru is the policy of the rule paging.LRU.
type lru struct{ list []paging.Old }

// Victim chooses the copy that was used longest ago.
func (l *lru) Victim(c []device.Candidate) int {
	l.list = l.list[:0]
	for i := range c {
		l.list = append(l.list, paging.Old{Used: c[i].LastUse, Distance: c[i].NextUse, Name: c[i].Name})
	}
	return paging.Oldest(l.list)
}

// evictorOf is a device's policy for which copy to give up; nil: the common one.
func evictorOf(d device.Device, r paging.Rule) device.Evictor {
	if r == paging.LRU {
		return &lru{}
	}
	return device.EvictorOf(d)
}

// clean reports whether t's newest contents are elsewhere than on a device too.
func (d *devState) clean(t *Tensor) bool {
	return t.truth != d.index || t.otherTruth(d.index) != nowhere
}

// evict frees a copy on a device, and spills it to the host first if there is no
// other.
func (m *Manager) evict(d *devState, t *Tensor) error {
	if t.truth == d.index {
		to := t.otherTruth(d.index)
		if to == nowhere {
			if err := m.toHost(t, out{kind: Spill, reason: SpillReason, cause: "over budget"}); err != nil {
				return err
			}
			to = onHost
			t.tenant.spills.add(spill{t, d.id, t.host.ready})
		}
		t.truth = to
	}
	d.free(t, "evicted")
	m.rankAll(t) // other copies may be the only ones now
	return nil
}

// next counts the device's launches until t is used there, and reports whether
// that use reads it. A tenant that has not acquired for long will not soon. A
// tensor that the order does not know is not used: the longer it was not, the
// later.
func (d *devState) next(t *Tensor, clock uint64) (distance int, reads bool) {
	c := d.copy(t)
	if c.object == 0 {
		return unknownUse + int(clock-c.used), true
	}
	y := d.of(t)
	distance, reads = y.uses.order.Next(c.object-1, y.now)
	return distance + int(clock-t.tenant.acted), reads
}
