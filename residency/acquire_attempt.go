package residency

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// attempt is one call of Acquire. It is made again after each pause: copies that
// it made current by then are kept, but nothing is locked meanwhile.
type attempt struct {
	m       *Manager
	tenant  *tenant
	s       device.Stream
	queue   device.Queue // of s
	needs   []Need
	scratch int64 // bytes
	lease   *Lease
	call    uint64 // the manager's clock
	cleared bool   // it has given up all it had, since the last pause
	launch  int    // in the known order of uses; -1 if it is not there

	*notes
}

// collect checks the needs and merges needs of the same tensor and device.
func (a *attempt) collect() error {
	m := a.m
	a.wants = a.wants[:0]
	for i := range a.needs {
		n := &a.needs[i]
		if !a.tenant.knows(n) || n.Mode == 0 || n.Mode > ReadWrite {
			return fmt.Errorf("acquire: need %d: give a tensor of this tenant, a device that it uses, and a mode", i)
		}
		c := n.copy()
		if c.wanted {
			a.wants[c.want].mode |= n.Mode
			continue
		}
		c.wanted, c.want = true, len(a.wants)
		m.devs[n.Device].unlist(n.Tensor)
		a.wants = append(a.wants, want{n.Tensor, &m.devs[n.Device], c, n.Mode})
	}
	return nil
}

// checkLeases pauses while a lease of another stream conflicts. It fails if a
// lease of s itself does: that one ends only after this call.
func (a *attempt) checkLeases() (pause, error) {
	m := a.m
	for i := range a.wants {
		w := &a.wants[i]
		if !w.conflicts() {
			continue
		}
		for _, l := range m.leases {
			if l.stream == a.s && slices.ContainsFunc(l.needs, func(n Need) bool { return n.Tensor == w.t }) {
				return pause{}, fmt.Errorf("%s: %w by the same stream: release that lease first", w.t.name, ErrLeased)
			}
		}
		return pause{kind: forTurn}, nil
	}
	return pause{}, nil
}

// conflicts reports whether a lease writes the contents that w reads, or uses a
// buffer that w overwrites. The lease's task is not queued yet, so there is no
// event to wait for.
func (w *want) conflicts() bool {
	overwrites := w.mode.writes() || !w.t.current(w.c)
	return overwrites && w.c.leased > 0 || w.c.writing || w.t.beingWritten()
}

// expect makes an attempt's launch the present one of its device. The device's queues
// rank copies by the distance of their next use. With the next launch, all distances
// shrink by one, which turn stands for. After any other launch, the queues are made
// anew.
func (a *attempt) expect() {
	o := &a.tenant.order
	a.launch = o.find(a.needs)
	if a.launch < 0 || len(a.needs) == 0 {
		return
	}
	d := a.needs[0].Device
	y, now := &a.tenant.on[d], o.uses.local[a.launch]
	switch n := len(y.uses.trace.Launches); {
	case now == y.now:
	case now == (y.now+1)%n:
		y.turn++
	default:
		a.m.devs[d].unrank()
	}
	y.now = now
}

// undo frees the memory that the attempt got and did not fill. It also unlocks the
// copies that the attempt wanted.
func (a *attempt) undo() {
	m := a.m
	for i := range a.wants {
		w := &a.wants[i]
		w.c.wanted = false
		if w.c.buf != nil && w.c.version == 0 && w.c.leased == 0 {
			w.d.free(w.t, "not acquired")
		}
		w.d.rank(w.t)
	}
	a.wants = a.wants[:0]
	m.freeScratch(a.lease, a.needs)
}

// grant fills in the lease.
func (a *attempt) grant() {
	m, l := a.m, a.lease
	l.tenant, l.held, l.stream = &a.tenant.account, true, a.s
	l.needs = append(l.needs[:0], a.needs...)
	l.Buffers, l.Ready = l.Buffers[:0], l.Ready[:0]
	for i := range a.wants {
		w := &a.wants[i]
		w.c.used, w.c.wanted = a.call, false
		w.c.writing = w.mode.writes()
		if w.mode.reads() && w.c.brought != a.call {
			w.t.note(w.d.index, ledger.Row{Kind: ledger.Hit, From: w.d.id, To: w.d.id, Cause: w.mode.String()})
		}
	}
	for _, n := range l.needs {
		m.devs[n.Device].lease(n.Tensor)
		l.Buffers, l.Ready = append(l.Buffers, n.copy().buf), append(l.Ready, device.Event{})
	}
	a.wants = a.wants[:0]
	a.tenant.order.advance(a.launch)
	m.leases = append(m.leases, l)
}
