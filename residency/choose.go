package residency

import "github.com/berth-ml/berth/engine/paging"

// makeRanking makes the queues if there are none.
func (m *Manager) makeRanking(d *devState) {
	x := &d.ranking
	if x.made {
		return
	}
	x.made = true
	x.others, x.named, x.free = paging.NewQueue(0), x.named[:0], x.free[:0]
	for _, u := range m.tenants {
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

// chosen lists the victims of the common policy. It returns the bytes that are
// still missing.
func (m *Manager) chosen(d *devState, bytes int64, after int) int64 {
	m.makeRanking(d)
	x := &m.scratch
	d.ranking.others.Clock = -int(m.clock)
	x.queues, x.tensors = append(x.queues[:0], d.ranking.others), append(x.tensors[:0], d.ranking.named)
	for _, u := range m.tenants {
		if y := &u.on[d.index]; y.queue != nil {
			y.queue.Clock = y.turn - int(m.clock-u.acted)
			x.queues, x.tensors = append(x.queues, y.queue), append(x.tensors, u.order.uses.tensors[d.index])
		}
	}
	var ok bool
	x.entries, ok = paging.Take(x.queues, x.entries[:0], bytes, after)
	if !ok {
		return bytes
	}
	for _, e := range x.entries {
		x.victims = append(x.victims, x.tensors[e.Queue][e.Object])
	}
	if m.audit != nil {
		m.audit(d, bytes, after)
	}
	return 0
}
