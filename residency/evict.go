package residency

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
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

// victims is the choice of the copies that leave a device. The manager's scratch owns the one
// that there is: each choice reuses its lists.
type victims struct {
	list []*Tensor

	// Of the common policy:
	queues  []*paging.Queue // of the copies that can leave the device
	tensors [][]*Tensor     // in these queues, by number
	entries []paging.Entry  // the victims in them

	// Of a policy of the device:
	candidates []device.Candidate
	owners     []*Tensor // of the candidates
}

// choose lists copies whose memory is at least so many bytes, in the order in which
// they leave. It spares those that are used within that many launches after the
// present one. It reports false if the others are too few.
func (v *victims) choose(d *devState, tenants []*Tenant, clock uint64, bytes int64, after int) bool {
	v.list = v.list[:0]
	if d.evictor != nil {
		return v.byPolicy(d, clock, bytes, after)
	}
	return v.byRank(d, tenants, clock, bytes, after)
}

// byRank is the common policy's choice.
func (v *victims) byRank(d *devState, tenants []*Tenant, clock uint64, bytes int64, after int) bool {
	// Line up the queues, each with the tensors that its numbers stand for.
	d.makeRanking(tenants)
	d.ranking.others.Clock = -int(clock)
	v.queues, v.tensors = append(v.queues[:0], d.ranking.others), append(v.tensors[:0], d.ranking.named)
	for _, u := range tenants {
		if y := &u.on[d.index]; y.queue != nil {
			y.queue.Clock = y.place.turn - int(clock-u.acted) // each call of others since its last one puts its uses off
			if u.suspended.Load() {
				y.queue.Clock -= paging.Never // those of all others come sooner
			}
			v.queues, v.tensors = append(v.queues, y.queue), append(v.tensors, u.order.uses.tensors[d.index])
		}
	}
	// Choose, and turn numbers into tensors.
	var ok bool
	v.entries, ok = paging.Take(v.queues, v.entries[:0], bytes, after)
	if !ok {
		return false
	}
	for _, e := range v.entries {
		v.list = append(v.list, v.tensors[e.Queue][e.Object])
	}
	return true
}

// byPolicy lets the device's own policy choose one victim after the other.
func (v *victims) byPolicy(d *devState, clock uint64, bytes int64, after int) bool {
	// List the copies that can leave: the owner of candidates[i] is owners[i].
	v.candidates, v.owners = v.candidates[:0], v.owners[:0]
	for _, t := range d.residents {
		next, _ := d.next(t, clock)
		if next >= unknownUse {
			next = device.Never
		}
		if d.copy(t).locked() || next <= after {
			continue
		}
		v.owners = append(v.owners, t)
		v.candidates = append(v.candidates, device.Candidate{
			Name: t.name, Usage: t.usage, Bytes: t.bytes, Clean: d.clean(t), NextUse: next, LastUse: d.copy(t).used,
		})
	}
	// Ask for one after the other. The last of the list takes the place of the one that is chosen.
	for bytes > 0 && len(v.candidates) > 0 {
		i, last := d.evictor.Victim(v.candidates), len(v.candidates)-1
		if i < 0 || i > last {
			panic(fmt.Sprintf("BUG: %s chose victim %d of %d", d.id, i, last+1))
		}
		v.list = append(v.list, v.owners[i])
		bytes -= d.takes(v.owners[i].bytes)
		v.candidates[i], v.owners[i] = v.candidates[last], v.owners[last]
		v.candidates, v.owners = v.candidates[:last], v.owners[:last]
	}
	return bytes <= 0
}

// A device that is short of memory keeps its copies in queues, so that the choice of
// what leaves takes hardly longer the more copies there are: a queue for each tenant
// with a known order of uses, and one for all other copies. They are made when
// memory first is short. From then on, whatever changes a tensor ranks its copies
// anew. Copies that are leased, or wanted by the attempt under way, are in no queue.

// unknownUse is the distance of the next use of a copy that no order knows, before
// the launches since its last use are added. It is more than that of any other.
const unknownUse = paging.Never / 2

// ranking ranks a device's copies whose next use is not known. The copies of a tenant with a
// known order of uses are in a queue of its tenancy instead. The device owns it.
type ranking struct {
	made   bool          // all queues are kept
	others *paging.Queue // of copies without a known order of uses
	named  []*Tensor     // by the number in it
	free   []int         // numbers that no copy has
}

// unrank forgets all queues, for when the order of uses changes.
func (d *devState) unrank() { d.ranking.made = false }

// makeRanking makes the queues if there are none.
func (d *devState) makeRanking(tenants []*Tenant) {
	x := &d.ranking
	if x.made {
		return
	}
	x.made = true
	x.others, x.named, x.free = paging.NewQueue(0), x.named[:0], x.free[:0]
	for _, u := range tenants {
		y := &u.on[d.index]
		if y.queue = nil; y.place.known() {
			y.queue = paging.NewQueue(len(y.place.uses.trace.Objects))
		}
	}
	for _, t := range d.residents {
		d.copy(t).other = 0
	}
	for _, t := range d.residents {
		d.rank(t)
	}
}

// rank puts t's copy here in its place.
func (d *devState) rank(t *Tensor) {
	c := d.copy(t)
	switch {
	case !d.ranking.made:
	case c.buf == nil || c.locked():
		d.unlist(t)
	case c.object > 0:
		y := d.of(t)
		y.queue.Clock = y.place.turn
		distance, reads := y.place.next(c.object)
		y.queue.Add(d.candidate(t, c.object-1, distance, reads))
	default:
		d.ranking.others.Clock = 0
		d.ranking.others.Add(d.candidate(t, d.number(t), unknownUse-int(c.used), true))
	}
}

// candidate describes t's copy here, that is not used for so many launches.
func (d *devState) candidate(t *Tensor, object, distance int, reads bool) paging.Candidate {
	x := paging.Candidate{Object: object, Bytes: d.takes(t.bytes), Distance: distance}
	if reads {
		x.Copies++
	}
	if !d.clean(t) && !d.serves(t) {
		x.Copies++
	}
	return x
}

// serves reports whether a copy of t to the host would serve many gaps between its
// uses here.
func (d *devState) serves(t *Tensor) bool {
	c := d.copy(t)
	return c.object > 0 && d.of(t).place.serves(c.object)
}

// unlist takes t's copy here out of its queue.
func (d *devState) unlist(t *Tensor) {
	c := d.copy(t)
	switch {
	case !d.ranking.made:
	case c.object > 0:
		d.of(t).queue.Forget(c.object - 1)
	case c.other > 0:
		x := &d.ranking
		x.others.Forget(c.other - 1)
		x.named[c.other-1] = nil
		x.free = append(x.free, c.other-1)
		c.other = 0
	}
}

// number returns the number of t's copy in ranking.others, and gives it one first if it has none.
func (d *devState) number(t *Tensor) int {
	x, c := &d.ranking, d.copy(t)
	if c.other > 0 {
		return c.other - 1
	}
	n := len(x.named)
	if last := len(x.free) - 1; last >= 0 {
		n, x.free = x.free[last], x.free[:last]
	} else {
		x.named = append(x.named, nil)
	}
	x.named[n], c.other = t, n+1
	return n
}

// clean reports whether a device's copy of t can go without a copy to the host: the newest
// contents are elsewhere too, or nobody needs them.
func (d *devState) clean(t *Tensor) bool {
	return t.discarded || t.truth != d.index || t.otherTruth(d.index) != nowhere
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
	distance, reads = d.of(t).place.next(c.object)
	return distance + int(clock-t.tenant.acted), reads
}

// spills is the copies to the host that were queued to evict a tenant's tensors. The memory
// of such a tensor is taken again once its copy has ended. If that has failed for good, the
// contents are lost, and only this list still knows whose they were. The tenant owns it, and
// the manager's lock guards it.
type spills []spill

// spill is one of them.
type spill struct {
	t      *Tensor
	from   string // device
	copied device.Event
}

// add records a spill. Before the list grows, it forgets those that lost nothing.
func (s *spills) add(x spill) {
	if len(*s) == cap(*s) {
		*s = slices.DeleteFunc(*s, func(x spill) bool { return x.copied.Done() && x.lost() == nil })
	}
	*s = append(*s, x)
}

// lost is the failure of the spill; nil if it went well, or the tensor has other contents
// by now.
func (x *spill) lost() error {
	if err := x.copied.Err(); err != nil && x.t.failure() != nil {
		return err
	}
	return nil
}

// failure is an ErrLost that names the tensors whose contents were lost; nil if there are
// none.
func (s spills) failure() error {
	var names []string
	var from string
	var cause error
	for i := range s {
		x := &s[i]
		if err := x.lost(); err != nil && !slices.Contains(names, x.t.name) {
			names = append(names, x.t.name)
			from, cause = x.from, err
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("%w: the spill of %s from %s failed: %w", ErrLost, strings.Join(names, ", "), from, cause)
}
