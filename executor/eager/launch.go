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
	for _, x := range w.args {
		if err := l.known(w, x.rec.maker()); err != nil {
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
func (l *lane) known(w *work, o *work) error {
	if o.done() || o.lane == l {
		return o.failure()
	}
	l.drain()
	l.hold(true)
	defer l.hold(false)
	return o.wait(w.era)
}

// hold records whether the lane waits for a call of others.
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
	l.mu.Lock()
	donated := l.needArgs(e, w.args)
	l.needResults(w.results, donated)
	l.mu.Unlock()
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

// takeOver gives results the contents that they have taken over.
func (l *lane) takeOver(w *work, donated uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, x := range w.results {
		if donated>>k&1 == 1 {
			a := w.args[w.entry.alias[k]].rec
			a.tensor, x.rec.tensor = x.rec.tensor, a.tensor
		}
	}
}

// runNow is launch for a call that is ready: it runs on the caller's goroutine, and has ended
// when it returns. ran is false if something else is missing, such as the executable or device
// memory; the call can be queued then. The error is of an op that has run. It needs mu.
func (l *lane) runNow(e *entry, args, room []Tensor) (results []Tensor, ran bool, err error) {
	donated := l.needArgs(e, args)
	v := e.compiled(donated)
	if v == nil {
		return nil, false, nil
	}
	if results, err = l.expect(e, donated, room[:0]); err != nil {
		return nil, false, nil // what the error says, enqueue says too
	}
	l.needResults(results, donated)
	if v.scratch == nil || l.needScratch(v) == nil {
		ran, err = l.runLeased(e, v, donated)
	}
	l.putScratch()
	if !ran {
		l.giveUp(results)
		return nil, false, nil // what the error says, Launch says too
	}
	if donated != 0 {
		handOver(e, donated, args, results)
	}
	return results, true, err
}

// runLeased leases the tensors of a call and runs it.
func (l *lane) runLeased(e *entry, v *variant, donated uint64) (ran bool, err error) {
	tenant := l.memory.tenant
	if !tenant.AcquireNow(l.stream, l.needs, &l.lease) {
		return false, nil
	}
	in, out, scratch := l.buffers(e, donated)
	done, ran, err := l.runner.Run(v.exe, in, out, scratch)
	switch {
	case !ran:
		_ = tenant.Abandon(&l.lease) // fails only for a lease that is not held
	case err == nil:
		err = tenant.Release(&l.lease, device.Event{}) // it has ended
	default:
		_ = tenant.Release(&l.lease, done)
		l.renew()
	}
	return ran, err
}

// handOver makes the records of donated arguments those of results.
func handOver(e *entry, donated uint64, args, results []Tensor) {
	for k := range results {
		if donated>>k&1 == 1 {
			r := args[e.alias[k]].rec
			r.gen++ // the argument is consumed
			r.refs = 1
			results[k] = Tensor{r, r.gen}
		}
	}
}

// fail gives the results of an op that has run their failure. It needs mu.
func (l *lane) fail(results []Tensor, err error) *work {
	o := &work{err: err}
	for _, x := range results {
		x.rec.made = o
		x.rec.endLocked(x.gen, err)
	}
	return o
}

// needArgs begins the list of tensors that a launch needs with its arguments, which are used. A
// result takes over the contents of an argument if the op can compute there and nothing else will
// use the argument: in donated, bit k stands for result k. It needs mu.
func (l *lane) needArgs(e *entry, args []Tensor) (donated uint64) {
	l.needs = l.needs[:0]
	for i, x := range args {
		m := residency.Read
		if k := e.over[i]; k >= 0 && x.rec.refs == 0 && x.rec.uses == 1 {
			donated |= 1 << k
			m = residency.ReadWrite
		}
		l.need(x.rec, m)
	}
	return donated
}

// needResults adds the results that take over no argument.
func (l *lane) needResults(results []Tensor, donated uint64) {
	for k, x := range results {
		if donated>>k&1 == 0 {
			l.need(x.rec, residency.Write)
		}
	}
}

// expect makes the handles of the results that take over no argument, each with one reference for
// the caller; the others stay zero. It needs mu.
func (l *lane) expect(e *entry, donated uint64, room []Tensor) (results []Tensor, err error) {
	if cap(room) < len(e.outs) {
		room = make([]Tensor, 0, len(e.outs))
	}
	for k, p := range e.outs {
		if donated>>k&1 == 1 {
			room = append(room, Tensor{})
			continue
		}
		r, err := l.memory.take(l, p)
		if err != nil {
			l.giveUp(room)
			return nil, err
		}
		r.refs = 1
		room = append(room, Tensor{r, r.gen})
	}
	return room, nil
}

// giveUp gives back what expect has made. It needs mu.
func (l *lane) giveUp(results []Tensor) {
	for _, x := range results {
		if !x.IsZero() {
			x.rec.uses = 0
			l.memory.put(x.rec)
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
	if l.scratch, err = l.memory.take(l, v.scratch); err != nil {
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
