package eager

import (
	"runtime"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/residency"
)

// shortSeconds is the time that an op may take on its caller's goroutine. To hand it to
// another goroutine takes a few microseconds, and the caller does not wait for it.
const shortSeconds = 10e-6

// now runs a short op on the caller's goroutine: it consumes the arguments, and puts
// the results into out. ok is false, and nothing has happened, unless the device has nothing
// else to do, and all that the op needs is there: the lane's goroutine then runs the
// call in its turn. err is the failure of an op that has run, for fail.
//
// It does what begin, lookup, collect and launch do, and allocates nothing.
func (l *lane) now(op graph.Op, args []Tensor, out []Tensor) (n int, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.settle() || l.runner == nil || !l.present(args) {
		return 0, false, nil
	}
	e := l.cache.usual(op, args)
	if e == nil || !e.short || len(e.outs) > len(out) || !consume(args) {
		return 0, false, nil
	}
	donated := l.donates(e, args)
	v := e.compiled(donated)
	if v == nil || l.gather(e, v, donated, args, out) != nil {
		restore(args)
		return 0, false, nil
	}
	defer l.putScratch()
	if ok, err = l.run(e, v, donated); ok {
		return l.finish(e, donated, args, out), true, err
	}
	l.ungather(e, donated, out)
	restore(args)
	return 0, false, nil
}

// settleSpins bounds how often now looks whether queued calls have ended.
const settleSpins = 100

// settle waits a moment for the calls that are queued, if all are short: a program that is
// ahead of the lane, such as by the time that compiling took, would stay ahead. It needs mu.
func (l *lane) settle() bool {
	for range settleSpins {
		if l.idle() {
			return true
		}
		if l.long > 0 || l.closed {
			return false
		}
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	return false
}

// present reports whether the contents of all arguments are in the lane.
func (l *lane) present(args []Tensor) bool {
	for _, x := range args {
		if x.rec == nil || x.rec.home != &l.home || !x.live() || x.rec.made != nil {
			return false
		}
	}
	return true
}

// consume takes a reference from each argument. It reports false, and changes nothing, if
// one has too few.
func consume(args []Tensor) bool {
	for i, x := range args {
		if x.rec.refs == 0 {
			restore(args[:i])
			return false
		}
		x.rec.refs--
	}
	return true
}

// restore undoes consume.
func restore(args []Tensor) {
	for _, x := range args {
		x.rec.refs++
	}
}

// donates finds the results that are computed in the memory of arguments: bit k stands
// for result k.
func (l *lane) donates(e *entry, args []Tensor) (donated uint64) {
	for i, x := range args {
		if k := e.over[i]; k >= 0 && x.rec.refs == 0 && x.rec.uses == 0 && !again(args, i) {
			donated |= 1 << k
		}
	}
	return donated
}

// again reports whether argument i is among the others too.
func again(args []Tensor, i int) bool {
	for j, x := range args {
		if j != i && x.rec == args[i].rec {
			return true
		}
	}
	return false
}

// gather lists the tensors that the launch needs, and makes those of the results. If it
// fails, it has made none.
func (l *lane) gather(e *entry, v *variant, donated uint64, args, out []Tensor) (err error) {
	l.needs = l.needs[:0]
	for i, x := range args {
		m := residency.Read
		if k := e.over[i]; k >= 0 && donated>>k&1 == 1 {
			m = residency.ReadWrite
		}
		l.need(x.rec, m)
	}
	for k, p := range e.outs {
		out[k] = Tensor{}
		if donated>>k&1 == 1 {
			continue
		}
		if out[k].rec, err = l.memory.take(&l.home, p); err != nil {
			l.ungather(e, donated, out[:k])
			return err
		}
		l.need(out[k].rec, residency.Write)
	}
	if err = l.needScratch(v); err != nil {
		l.ungather(e, donated, out)
	}
	return err
}

// ungather gives back the tensors of results that gather has made.
func (l *lane) ungather(e *entry, donated uint64, out []Tensor) {
	for k := range e.outs {
		if k < len(out) && donated>>k&1 == 0 {
			l.memory.put(out[k].rec)
		}
	}
}

// run runs the launch. ok is false if it did not run.
func (l *lane) run(e *entry, v *variant, donated uint64) (ok bool, err error) {
	tenant := l.memory.tenant
	if !tenant.AcquireNow(l.stream, l.needs, &l.lease) {
		return false, nil
	}
	in, out, scratch := l.buffers(e, donated)
	done, ok, err := l.runner.Run(v.exe, in, out, scratch)
	if !ok {
		_ = tenant.Abandon(&l.lease) // fails only for a lease that is not held
		return false, nil            // what the error says, Launch says too
	}
	if err == nil {
		return true, tenant.Release(&l.lease, device.Event{}) // it has ended
	}
	_ = tenant.Release(&l.lease, done)
	l.renew()
	return true, err
}

// finish makes the handles of the results, and ends the arguments that nobody else has.
func (l *lane) finish(e *entry, donated uint64, args, out []Tensor) int {
	for k, j := range e.alias {
		r := out[k].rec
		if donated>>k&1 == 1 {
			r = args[j].rec
			r.gen++ // the argument is consumed
		}
		r.refs = 1
		out[k] = Tensor{r, r.gen}
	}
	for _, x := range args {
		if x.rec.gen == x.gen && x.rec.refs == 0 && x.rec.uses == 0 {
			l.memory.put(x.rec)
		}
	}
	return len(e.outs)
}
