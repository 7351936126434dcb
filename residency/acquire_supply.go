package residency

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// supply gives every want memory, and the contents that it reads. A copy that is
// not current has no buffer yet: it was freed when it became stale.
func (a *attempt) supply() (pause, error) {
	for i := range a.wants {
		if w := &a.wants[i]; w.mode.reads() && w.t.truth == nowhere {
			return pause{}, fmt.Errorf("%s is needed on %s for %v: %w: fill, feed or write it first", w.t.name, w.d.id, w.mode, ErrUndefined)
		}
		if err := a.wants[i].t.lost(); err != nil && a.wants[i].mode.reads() {
			return pause{}, err
		}
	}
	for i := range a.wants {
		w := &a.wants[i]
		a.forget(w.t)
		if w.t.current(w.c) {
			continue
		}
		if p, err := a.give(w); err != nil || p.kind != none {
			return p, err
		}
	}
	return pause{}, nil
}

// forget frees the copies of a tensor whose contents did not arrive, except for the
// truth: they are then brought again. What this call has brought is not tried
// twice.
func (a *attempt) forget(t *Tensor) {
	for _, i := range t.tenant.used {
		if c := &t.copies[i]; i != t.truth && c.leased == 0 && c.brought != a.call && c.failure() != nil {
			a.m.devs[i].free(t, "failed")
		}
	}
	a.m.forgetHost(t)
}

// give gives a want memory, and the contents that it reads. The memory is taken
// for the stream that writes it first: the task's own, or a copy stream. It
// pauses if a store must be read first.
func (a *attempt) give(w *want) (pause, error) {
	m, s := a.m, a.s
	if w.mode.reads() {
		if m.mustStream(w.t, w.d) {
			return pause{kind: forStore, t: w.t, d: w.d.index}, nil
		}
		var err error
		if s, err = m.copier(w.t, w.d); err != nil {
			return pause{}, err
		}
	}
	b, err := a.take(w.d, s, w.t.meta, w.t.usage)
	if errors.Is(err, device.ErrOutOfMemory) {
		return a.full(w.d, err)
	}
	if err != nil {
		return pause{}, fmt.Errorf("%s on %s: %w", w.t.name, w.d.id, err)
	}
	w.d.attach(w.t, b, s)
	if !w.mode.reads() {
		return pause{}, nil
	}
	w.c.brought = a.call
	return pause{}, m.bring(w.t, w.d, w.mode.String())
}

// takeScratch takes the task's working memory.
func (a *attempt) takeScratch() (pause, error) {
	if a.scratch <= 0 {
		return pause{}, nil
	}
	if len(a.needs) == 0 {
		return pause{}, errors.New("acquire: scratch is taken on the device of the first need, but there are no needs")
	}
	l, d := a.lease, &a.m.devs[a.needs[0].Device]
	if l.scratch.Bytes() != a.scratch {
		l.scratch = shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(a.scratch))}
	}
	b, err := a.take(d, a.s, l.scratch, device.Scratch)
	if errors.Is(err, device.ErrOutOfMemory) {
		return a.full(d, err)
	}
	if err != nil {
		return pause{}, fmt.Errorf("scratch on %s: %w", d.id, err)
	}
	l.Scratch = b
	a.tenant.on[d.index].count(device.Scratch, d.takes(a.scratch))
	return pause{}, nil
}
