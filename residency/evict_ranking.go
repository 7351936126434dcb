package residency

import "github.com/berth-ml/berth/engine/paging"

// A device that is short of memory keeps its copies in queues, so that the choice of
// what leaves takes hardly longer the more copies there are: a queue for each tenant
// with a known order of uses, and one for all other copies. They are made when
// memory first is short. From then on, whatever changes a tensor ranks its copies
// anew. Copies that are leased, or wanted by the attempt under way, are in no queue.

// unknownUse is the distance of the next use of a copy that no order knows, before
// the launches since its last use are added. It is more than that of any other.
const unknownUse = paging.Never / 2

// ranking is the queues of a device that are no tenant's.
type ranking struct {
	made   bool          // all queues are kept
	others *paging.Queue // of copies that no order knows
	named  []*Tensor     // by the number in it
	free   []int         // numbers that no copy has
}

// unrank forgets all queues, for when the order of uses changes.
func (d *devState) unrank() { d.ranking.made = false }

// makeRanking makes the queues if there are none.
func (d *devState) makeRanking(tenants []*tenant) {
	x := &d.ranking
	if x.made {
		return
	}
	x.made = true
	x.others, x.named, x.free = paging.NewQueue(0), x.named[:0], x.free[:0]
	for _, u := range tenants {
		y := &u.on[d.index]
		if y.queue = nil; y.uses != nil {
			y.queue = paging.NewQueue(len(y.uses.trace.Objects))
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
		y.queue.Clock = y.turn
		distance, reads := y.uses.order.Next(c.object-1, y.now)
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
	c, y := d.copy(t), d.of(t)
	return c.object > 0 && y.uses.order.Serves(c.object-1, y.now)
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

// number is that of t's copy among those that no order knows.
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
