package residency

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
)

// fetchAhead queues copies of the tensors that the next launches of the step read,
// so that they move while the attempt's task runs. For memory, it evicts only
// tensors that none of these launches uses.
func (a *attempt) fetchAhead() error {
	if a.launch < 0 {
		return nil
	}
	d, y := &a.m.devs[a.needs[0].Device], &a.tenant.on[a.needs[0].Device]
	x, tensors := y.uses, a.tenant.order.uses.tensors[d.index]
	for at := y.now + 1; at <= y.now+x.policy.Ahead && at < len(x.trace.Launches); at++ {
		for _, u := range x.trace.Launches[at].Uses {
			t := tensors[u.Object]
			if !u.Read || d.copy(t).buf != nil || t.truth == nowhere || t.beingWritten() || a.m.mustStream(t, d) {
				continue
			}
			if n, _ := x.order.Next(u.Object, y.now); y.now+n != at {
				continue // a launch before that overwrites it
			}
			if ok, err := a.fetchOne(t, d, x.policy); err != nil || !ok {
				return err
			}
		}
	}
	return nil
}

// fetchOne queues the copy of one tensor. It reports false if there is no room.
func (a *attempt) fetchOne(t *Tensor, d *devState, p paging.Policy) (bool, error) {
	m := a.m
	if ok, err := m.makeRoom(d, d.takes(t.bytes)+p.Spare, p.Ahead); err != nil || !ok {
		return false, err
	}
	s, err := m.copier(t, d)
	if err != nil {
		return false, err
	}
	b, err := a.alloc(d, s, t.meta, t.usage)
	if errors.Is(err, device.ErrOutOfMemory) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s on %s: %w", t.name, d.id, err)
	}
	d.attach(t, b, s)
	d.copy(t).used = m.clock
	if err := m.bring(t, d, "ahead"); err != nil {
		d.free(t, "not fetched")
		return false, err
	}
	return true, nil
}
