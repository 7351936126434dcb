package residency

import "fmt"

// Candidate is a copy that could be given up to make room.
type Candidate struct {
	Tensor  *Tensor
	Bytes   int64
	Clean   bool   // other current contents exist: giving it up moves nothing
	NextUse int    // uses until it is used again, or Never
	LastUse uint64 // counts calls of Acquire; greater is later
}

// before reports whether c is given up before o.
func (c Candidate) before(o Candidate) bool {
	if c.Clean != o.Clean {
		return c.Clean
	}
	if c.NextUse != o.NextUse {
		return c.NextUse > o.NextUse
	}
	return c.LastUse < o.LastUse
}

// Evictor is implemented by a device that knows better than the common policy
// which copy to give up: clean ones before dirty ones; among them the one used
// furthest in the future, then the least recently used. Victim answers with an
// index into c, which is not empty and contains no leased copy. It runs with
// the manager locked and must not call back.
type Evictor interface {
	Victim(c []Candidate) int
}

// SetUses sets the order of uses to come, need by need as Acquire will be called.
// With it, eviction can choose the copy used furthest in the future. The order
// repeats until it is set again; nil removes it. Acquire advances through it and
// skips needs that are not in it.
func (m *Manager) SetUses(uses []Use) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.order.set(uses)
}

// evict frees one copy on a device, and spills it to the host first if there is no
// other. It reports false if all copies are locked.
func (m *Manager) evict(d *devState) (bool, error) {
	t := m.victim(d)
	if t == nil {
		return false, nil
	}
	if t.truth == d.index {
		to := t.otherTruth(d.index)
		if to == nowhere {
			if err := m.copyOut(t, Spill, SpillReason, "over budget"); err != nil {
				return false, err
			}
			to = onHost
		}
		t.truth = to
	}
	d.free(t, "evicted")
	return true, nil
}

// victim chooses the tensor whose copy on a device is evicted next; nil if all
// are locked.
func (m *Manager) victim(d *devState) *Tensor {
	if e, ok := d.dev.(Evictor); ok {
		return m.deviceVictim(d, e)
	}
	var best Candidate
	for _, t := range d.residents {
		if m.locked(d.copy(t)) {
			continue
		}
		if c := m.candidate(t, d); best.Tensor == nil || c.before(best) {
			best = c
		}
	}
	return best.Tensor
}

// deviceVictim lets the device choose.
func (m *Manager) deviceVictim(d *devState, e Evictor) *Tensor {
	var cs []Candidate
	for _, t := range d.residents {
		if !m.locked(d.copy(t)) {
			cs = append(cs, m.candidate(t, d))
		}
	}
	if len(cs) == 0 {
		return nil
	}
	i := e.Victim(cs)
	if i < 0 || i >= len(cs) {
		panic(fmt.Sprintf("BUG: %s chose victim %d of %d", d.id, i, len(cs)))
	}
	return cs[i].Tensor
}

// candidate describes t's copy on a device. It is current: no lease contains it.
func (m *Manager) candidate(t *Tensor, d *devState) Candidate {
	c := d.copy(t)
	clean := t.truth != d.index || t.otherTruth(d.index) != nowhere
	return Candidate{Tensor: t, Bytes: t.bytes, Clean: clean, NextUse: m.order.next(c), LastUse: c.used}
}

// locked reports whether c must stay: it is leased, or this attempt wants it.
func (m *Manager) locked(c *devCopy) bool { return c.leased > 0 || c.wanted == m.scratch.attempt }
