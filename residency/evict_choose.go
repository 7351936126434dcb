package residency

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
)

// victims is a choice of copies that leave a device. It is used again for the next
// one.
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
func (v *victims) choose(d *devState, tenants []*tenant, clock uint64, bytes int64, after int) bool {
	v.list = v.list[:0]
	if d.evictor != nil {
		return v.byPolicy(d, clock, bytes, after)
	}
	return v.byRank(d, tenants, clock, bytes, after)
}

// byRank is the common policy's choice.
func (v *victims) byRank(d *devState, tenants []*tenant, clock uint64, bytes int64, after int) bool {
	d.makeRanking(tenants)
	d.ranking.others.Clock = -int(clock)
	v.queues, v.tensors = append(v.queues[:0], d.ranking.others), append(v.tensors[:0], d.ranking.named)
	for _, u := range tenants {
		if y := &u.on[d.index]; y.queue != nil {
			y.queue.Clock = y.turn - int(clock-u.acted) // each call of others since its last one puts its uses off
			v.queues, v.tensors = append(v.queues, y.queue), append(v.tensors, u.order.uses.tensors[d.index])
		}
	}
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
