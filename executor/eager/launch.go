package eager

import (
	"cmp"
	"context"
	"errors"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency"
)

// blocked is the reason why the call must not run, nil if it may. It waits for
// arguments that no call of this lane makes.
func (l *lane) blocked(w *work) error {
	for _, a := range w.args {
		if err := l.known(w, a.maker()); err != nil {
			return err
		}
	}
	if w.after != nil {
		if err := l.known(w, w.after.made); err != nil {
			return err
		}
	}
	return cmp.Or(context.Cause(w.era), l.broken)
}

// known is the failure of a call. It waits for a call that is not in this lane, which may
// wait for calls in flight here: they end first. A call of this lane that has not ended has
// no failure yet.
func (l *lane) known(w *work, o *outcome) error {
	if o.done() || o.home == &l.home {
		return o.failure()
	}
	l.drain()
	l.hold(true)
	defer l.hold(false)
	return o.wait(w.era)
}

// hold notes whether the lane waits for a call of others.
func (l *lane) hold(held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held = held; held {
		l.room.Broadcast()
	}
}

// launch queues the op on the stream, once residency has leased it its tensors.
func (l *lane) launch(w *work) error {
	e := w.entry
	donated := l.collect(w)
	v, err := l.variant(e, donated, w.era)
	if err != nil {
		return err
	}
	l.mu.Lock()
	err = l.needScratch(v)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		l.mu.Lock()
		l.putScratch()
		l.mu.Unlock()
	}()
	tenant := l.memory.tenant
	if err := tenant.Acquire(w.era, l.stream, l.needs, 0, &l.lease); err != nil {
		return w.era.cause(err)
	}
	in, out, scratch := l.buffers(e, donated)
	if w.event, err = l.stream.Launch(v.exe, in, out, scratch); err != nil {
		return errors.Join(err, tenant.Abandon(&l.lease))
	}
	l.takeOver(w, donated)
	return tenant.Release(&l.lease, w.event)
}

// collect lists the tensors that a launch needs. A result takes over the contents of an
// argument if the op can compute there and nothing else will use the argument: in
// donated, bit k stands for result k.
func (l *lane) collect(w *work) (donated uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.needs = l.needs[:0]
	for i, a := range w.args {
		if k := w.entry.over[i]; k >= 0 && a.refs == 0 && a.uses == 1 {
			donated |= 1 << k
			l.need(a, residency.ReadWrite)
		} else {
			l.need(a, residency.Read)
		}
	}
	for k, x := range w.results {
		if donated>>k&1 == 0 {
			l.need(x.rec, residency.Write)
		}
	}
	return donated
}

// takeOver gives results the contents that they have taken over.
func (l *lane) takeOver(w *work, donated uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, x := range w.results {
		if donated>>k&1 == 1 {
			a := w.args[w.entry.alias[k]]
			a.tensor, x.rec.tensor = x.rec.tensor, a.tensor
		}
	}
}

// need adds a tensor to those that the launch needs: first the arguments, then the
// results that take over none of them, then the scratch.
func (l *lane) need(r *record, m residency.Mode) {
	l.needs = append(l.needs, residency.Need{Tensor: r.tensor, Device: l.memory.device, Mode: m})
}

// needScratch adds the working memory of an executable.
func (l *lane) needScratch(v *variant) (err error) {
	if v.scratch == nil {
		return nil
	}
	if l.scratch, err = l.memory.take(&l.home, v.scratch); err != nil {
		return err
	}
	l.need(l.scratch, residency.Write)
	return nil
}

// putScratch gives the working memory back. It needs mu.
func (l *lane) putScratch() {
	if l.scratch != nil {
		l.memory.put(l.scratch)
		l.scratch = nil
	}
}

// buffers are the buffers of the lease, as the executable takes them.
func (l *lane) buffers(e *entry, donated uint64) (in, out []device.Buffer, scratch device.Buffer) {
	list, args, outs := l.lease.Buffers, len(e.over), len(e.outs)
	if l.scratch != nil {
		last := len(list) - 1
		list, scratch = list[:last], list[last]
	}
	if donated == 0 {
		return list[:args], list[args : args+outs], scratch
	}
	l.out = l.out[:0]
	rest := list[args:]
	for k := range e.outs {
		if donated>>k&1 == 1 {
			l.out = append(l.out, list[e.alias[k]])
		} else {
			l.out, rest = append(l.out, rest[0]), rest[1:]
		}
	}
	return list[:args], l.out, scratch
}
