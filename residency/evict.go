package residency

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/berth-ml/berth/engine/device"
)

// Never is the NextUse of a tensor that the known order does not use again.
const Never = math.MaxInt

// Use says that a task uses a tensor on a device.
type Use struct {
	Tensor *Tensor
	Device int
}

// Candidate is a copy that could be given up to make room.
type Candidate struct {
	Tensor  *Tensor
	Bytes   int64
	Clean   bool   // other current contents exist: giving it up moves nothing
	NextUse int    // uses until it is used again, or Never
	LastUse uint64 // grows with time
}

// Evictor is implemented by a device that knows better than the common policy
// which copy to give up: clean ones before dirty ones; among them the one used
// furthest in the future, then the least recently used. Victim answers with an
// index into c, which is not empty and holds no leased copy. It runs with the
// manager locked and must not call back.
type Evictor interface {
	Victim(c []Candidate) int
}

// grave is memory that was deleted and is still in use by queued work.
type grave struct {
	bytes  int64
	events fence
}

// order is the known future order of uses. It repeats.
type order struct {
	uses []Use
	pos  int
}

// SetUses tells the order of uses to come, need by need as Acquire will be
// called, so that the victim can be the copy used furthest in the future. The
// order repeats from its start after its end, until it is set again; nil
// forgets it. Acquire advances through it; needs that are not in it are
// passed over.
func (m *Manager) SetUses(uses []Use) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.order.uses {
		c := &u.Tensor.copies[u.Device]
		c.uses = c.uses[:0]
	}
	m.order = order{uses: append([]Use(nil), uses...)}
	for i, u := range m.order.uses {
		c := &u.Tensor.copies[u.Device]
		c.uses = append(c.uses, i)
	}
}

// next is the number of uses until c is used, or Never.
func (o *order) next(c *devCopy) int {
	if len(c.uses) == 0 {
		return Never
	}
	if i := sort.SearchInts(c.uses, o.pos); i < len(c.uses) {
		return c.uses[i] - o.pos
	}
	return c.uses[0] + len(o.uses) - o.pos
}

// advance moves past the uses that were just acquired.
func (o *order) advance(wants []want) {
	last := -1
	for i := range wants {
		if n := o.next(wants[i].copy()); n != Never {
			last = max(last, n)
		}
	}
	if len(o.uses) > 0 {
		o.pos = (o.pos + last + 1) % len(o.uses)
	}
}

// hold notes a buffer as t's copy on device d.
func (m *Manager) hold(t *Tensor, d int, b device.Buffer) {
	p, c := &m.places[d], &t.copies[d]
	c.buf, c.version, c.ready, c.readers = b, 0, device.Event{}, c.readers[:0]
	c.slot = len(p.residents)
	p.residents = append(p.residents, t)
	p.used += t.bytes
	p.peak = max(p.peak, p.taken())
}

// forget takes t's copy on device d out of the records, its buffer having gone
// elsewhere.
func (m *Manager) forget(t *Tensor, d int, cause string) {
	p, c := &m.places[d], &t.copies[d]
	last := len(p.residents) - 1
	p.residents[c.slot] = p.residents[last]
	p.residents[c.slot].copies[d].slot = c.slot
	p.residents[last] = nil
	p.residents = p.residents[:last]
	p.used -= t.bytes
	c.buf, c.version, c.ready, c.readers = nil, 0, device.Event{}, c.readers[:0]
	m.ledger.add(entry{kind: Drop, t: t, device: d, from: p.id, cause: cause})
}

// discard deletes t's copy on device d, if there is one. The device keeps the
// memory until queued work with it has ended; so long it counts as pending.
func (m *Manager) discard(t *Tensor, d int, cause string) error {
	p, c := &m.places[d], &t.copies[d]
	if c.buf == nil {
		return nil
	}
	err := c.buf.Delete()
	if !c.ready.Done() {
		c.readers.add(c.ready)
	}
	p.bury(t.bytes, &c.readers)
	m.forget(t, d, cause)
	if err != nil {
		return fmt.Errorf("delete %s on %s: %w", t.name, p.id, err)
	}
	return nil
}

// recycleStale gives up the copies of t that are stale and not leased.
func (m *Manager) recycleStale(t *Tensor, cause string) {
	for d := range t.copies {
		if c := &t.copies[d]; c.leased == 0 && !t.current(c) {
			m.recycle(t, d, cause)
		}
	}
}

// bury counts bytes as pending until the events in uses have happened. It
// takes the memory of uses and leaves its own.
func (p *place) bury(bytes int64, uses *fence) {
	if uses.done() {
		return
	}
	if len(p.graves) >= p.sweepAt {
		p.sweep()
		p.sweepAt = max(64, 2*len(p.graves))
	}
	n := len(p.graves)
	if n < cap(p.graves) {
		p.graves = p.graves[:n+1]
	} else {
		p.graves = append(p.graves, grave{})
	}
	g := &p.graves[n]
	g.bytes = bytes
	g.events, *uses = *uses, g.events[:0]
	p.pending += bytes
}

// sweep forgets the graves whose events have happened, in order.
func (p *place) sweep() {
	n := 0
	for i := range p.graves {
		g := &p.graves[i]
		if g.events.done() {
			p.pending -= g.bytes
			continue
		}
		p.graves[n], p.graves[i] = p.graves[i], p.graves[n]
		n++
	}
	p.graves = p.graves[:n]
}

// oldest is a pause until the oldest grave has come nearer to its end.
func (p *place) oldest() pause {
	for i := range p.graves {
		for _, e := range p.graves[i].events {
			if !e.Done() {
				return pause{kind: forEvent, event: e}
			}
		}
	}
	return pause{kind: again}
}

// taken is the bytes that are not free on the device.
func (p *place) taken() int64 { return p.used + p.pool.bytes + p.pending }

// fits reports whether the budget has room for bytes more.
func (p *place) fits(bytes int64) bool { return p.budget <= 0 || p.taken()+bytes <= p.budget }

// room makes room within the budget of device d for what the attempt misses
// there: first from the pool, even if copies must wait for old uses then.
// Giving copies up comes before waiting only where it is needed.
func (m *Manager) room(d int, s device.Stream) (pause, error) {
	p := &m.places[d]
	if p.missing == 0 || p.fits(p.missing) {
		return pause{}, nil
	}
	p.sweep()
	for i := range m.wants {
		if w := &m.wants[i]; w.d == d && w.copy().buf == nil && m.take(w.t, d, nil, true) {
			p.missing -= w.t.bytes
		}
	}
	if p.missing == 0 {
		return pause{}, nil
	}
	if locked := m.locked(d); locked+p.missing > p.budget {
		return m.stuck(d, s, locked, nil)
	}
	m.yield(p, p.missing, false)
	for p.used+p.missing > p.budget {
		if ok, err := m.evict(d); err != nil {
			return pause{}, err
		} else if !ok {
			panic("BUG: nothing to evict on " + p.id + " though not all is leased")
		}
	}
	if p.fits(p.missing) {
		return pause{}, nil
	}
	return p.oldest(), nil
}

// alloc gets t a buffer on device d, with whatever it takes when the device
// itself is out of memory.
func (m *Manager) alloc(t *Tensor, d int, s device.Stream) (pause, error) {
	p := &m.places[d]
	for {
		b, err := p.dev.Alloc(t.meta, t.usage)
		if err == nil {
			m.hold(t, d, b)
			p.pool.grow(p.used + p.pending)
			p.missing -= t.bytes
			return pause{}, nil
		}
		if !errors.Is(err, device.ErrOutOfMemory) {
			return pause{}, fmt.Errorf("%s on %s: %w", t.name, p.id, err)
		}
		if m.take(t, d, nil, true) {
			p.missing -= t.bytes
			return pause{}, nil
		}
		if m.drain(p, true) || m.drain(p, false) {
			continue
		}
		if n := len(p.graves); n > 0 {
			if p.sweep(); len(p.graves) == n {
				return p.oldest(), nil
			}
			continue // some of it was freed, maybe after the device looked
		}
		if ok, e := m.evict(d); e != nil {
			return pause{}, e
		} else if !ok {
			return m.stuck(d, s, m.locked(d), err)
		}
	}
}

// locked is the bytes on device d that are leased or wanted by this attempt.
func (m *Manager) locked(d int) (bytes int64) {
	for _, t := range m.places[d].residents {
		if m.held(&t.copies[d]) {
			bytes += t.bytes
		}
	}
	return bytes
}

// held reports whether c must not be given up.
func (m *Manager) held(c *devCopy) bool { return c.leased > 0 || c.wanted == m.attempt }

// stuck is what to do when leases leave no room: wait for a lease of another
// stream, or fail, because a stream's own leases end only after this call.
func (m *Manager) stuck(d int, s device.Stream, locked int64, cause error) (pause, error) {
	for _, l := range m.active {
		if l.stream == s {
			continue
		}
		for _, n := range l.needs {
			if n.Device == d {
				return pause{kind: forRelease}, nil
			}
		}
	}
	p := &m.places[d]
	var big *Tensor
	for i := range m.wants {
		if w := &m.wants[i]; w.d == d && (big == nil || w.t.bytes > big.bytes) {
			big = w.t
		}
	}
	limit := fmt.Errorf("budget %d", p.budget)
	if cause != nil {
		limit = cause
	}
	return pause{}, fmt.Errorf("%w: %d bytes more are needed on %s, %d are leased or needed at once (%w); "+
		"largest is %v with %d: raise the budget, use smaller microbatches or more devices",
		ErrBudget, p.missing, p.id, locked, limit, big, big.bytes)
}

// evict gives up one copy on device d, spilling it to the host if it is the
// only one. It reports false when all are held.
func (m *Manager) evict(d int) (bool, error) {
	t := m.victim(d)
	if t == nil {
		return false, nil
	}
	if t.truth == d && t.current(&t.copies[d]) {
		to := m.otherTruth(t, d)
		if to == nowhere {
			if err := m.copyOut(t, Spill, SpillReason, "over budget"); err != nil {
				return false, err
			}
			to = onHost
		}
		t.truth = to
	}
	return true, m.discard(t, d, "evicted")
}

// otherTruth is where current contents of t are besides device d: devices
// first, because from there nothing needs to come in.
func (m *Manager) otherTruth(t *Tensor, d int) int {
	for i := range t.copies {
		if i != d && t.current(&t.copies[i]) {
			return i
		}
	}
	if t.hostCurrent() {
		return onHost
	}
	return nowhere
}

// victim is the tensor whose copy on device d is given up next, or nil.
func (m *Manager) victim(d int) *Tensor {
	if e, ok := m.places[d].dev.(Evictor); ok {
		return m.deviceVictim(d, e)
	}
	var best Candidate
	for _, t := range m.places[d].residents {
		if m.held(&t.copies[d]) {
			continue
		}
		if c := m.candidate(t, d); best.Tensor == nil || c.before(best) {
			best = c
		}
	}
	return best.Tensor
}

// deviceVictim asks the device.
func (m *Manager) deviceVictim(d int, e Evictor) *Tensor {
	var cs []Candidate
	for _, t := range m.places[d].residents {
		if !m.held(&t.copies[d]) {
			cs = append(cs, m.candidate(t, d))
		}
	}
	if len(cs) == 0 {
		return nil
	}
	i := e.Victim(cs)
	if i < 0 || i >= len(cs) {
		panic(fmt.Sprintf("BUG: %s chose victim %d of %d", m.places[d].id, i, len(cs)))
	}
	return cs[i].Tensor
}

// candidate describes t's copy on device d. What holds nothing current is
// clean and never used.
func (m *Manager) candidate(t *Tensor, d int) Candidate {
	c := &t.copies[d]
	out := Candidate{Tensor: t, Bytes: t.bytes, Clean: true, NextUse: Never, LastUse: c.used}
	if t.current(c) {
		out.Clean = t.truth != d || m.otherTruth(t, d) != nowhere
		out.NextUse = m.order.next(c)
	}
	return out
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
