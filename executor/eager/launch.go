package eager

import (
	"context"
	"errors"

	"github.com/berth-ml/berth/engine/device"
)

// blocked is the reason why the call must not run, nil if it may. It waits for
// arguments from other lanes.
func (l *lane) blocked(w *work) error {
	for _, a := range w.args {
		if err := l.known(a.made); err != nil {
			return err
		}
	}
	if w.after != nil {
		if err := l.known(w.after.made); err != nil {
			return err
		}
	}
	if err := context.Cause(w.era); err != nil {
		return &Error{Op: w.what, Loc: w.loc, Err: err}
	}
	if l.broken != nil {
		return &Error{Op: w.what, Loc: w.loc, Err: l.broken}
	}
	return nil
}

// known is the failure of a call. It waits for a call of another lane. A call of
// this lane that has not ended has no failure yet.
func (l *lane) known(o *outcome) error {
	if o != nil && o.home != &l.home {
		return o.wait(context.Background())
	}
	return o.failure()
}

// launch allocates memory for the results and queues the op on the stream. A
// result takes over an argument's memory if the op can compute there and nothing
// else will use the argument.
func (l *lane) launch(w *work) error {
	e := w.entry
	var donated uint64
	for k, j := range e.alias {
		if j >= 0 && w.args[j].isLast() {
			donated |= 1 << k
		}
	}
	v, err := e.variant(l.dev, donated)
	if err != nil {
		return err
	}
	l.in, l.out = l.in[:0], l.out[:0]
	for _, a := range w.args {
		l.in = append(l.in, a.buf)
	}
	for k, m := range e.outs {
		var b device.Buffer
		if donated>>k&1 == 1 {
			b = l.in[e.alias[k]]
		} else if b, err = l.stream.Alloc(m, device.Activation); err != nil {
			return l.undo(donated, err)
		}
		l.out = append(l.out, b)
	}
	if err := l.launchWith(v, w); err != nil {
		return l.undo(donated, err)
	}
	for _, a := range w.args {
		a.used(w.event)
	}
	for k, b := range l.out {
		if donated>>k&1 == 1 {
			w.args[e.alias[k]].take()
		}
		w.results[k].attach(b)
		w.results[k].used(w.event)
	}
	return nil
}

// launchWith queues the op with working memory of its own.
func (l *lane) launchWith(v *variant, w *work) (err error) {
	var scratch device.Buffer
	if v.scratch.Bytes() > 0 {
		if scratch, err = l.stream.Alloc(v.scratch, device.Scratch); err != nil {
			return err
		}
		defer func() {
			l.after[0] = w.event
			err = errors.Join(err, scratch.Free(l.after[:]...))
		}()
	}
	w.event, err = l.stream.Launch(v.exe, l.in, l.out, scratch)
	return err
}

// undo frees the buffers that launch has allocated so far.
func (l *lane) undo(donated uint64, err error) error {
	for k, b := range l.out {
		if donated>>k&1 == 0 {
			err = errors.Join(err, b.Free())
		}
	}
	return err
}
