package eager

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// lookup finds or makes the entry of a call that is none of the usual ones, and counts the call as
// pending. Cancel ends it. It needs mu, which it leaves meanwhile.
func (l *lane) lookup(op graph.Op, args []Tensor, of *era) (*entry, error) {
	var room [192]byte
	key, err := keyOf(room[:0], op, args)
	if err != nil {
		return nil, err
	}
	if e := l.cache.entries[string(key)]; e != nil {
		e.pending++
		return e, nil
	}
	l.mu.Unlock()
	defer l.mu.Lock()
	in := make([]shape.Meta, len(args))
	for i, x := range args {
		in[i] = x.rec.pool.meta
	}
	made, err := newEntry(op, in, l.dev, l.compile, of.ended)
	if err != nil {
		return nil, err
	}
	e, dropped := l.enter(string(key), made, args)
	for _, x := range dropped {
		x.release()
	}
	return e, nil
}

// enter adds an entry to the cache, unless another goroutine has added it meanwhile. It counts a
// call of it as pending.
func (l *lane) enter(key string, made *entry, args []Tensor) (e *entry, dropped []*entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e = l.cache.entries[key]; e == nil {
		e = made
		dropped = l.dropFull()
		for _, v := range e.graph.Outputs {
			e.outs = append(e.outs, l.memory.pool(v.Meta, device.Activation))
		}
		dropped = append(dropped, l.cache.add(key, e)...)
		l.cache.addQuick(e, args)
	}
	e.pending++
	return e, dropped
}

// dropFull forgets all entries and pools if there are too many pools. It lists the entries to
// release. It needs mu.
func (l *lane) dropFull() []*entry {
	if !l.memory.full() {
		return nil
	}
	l.memory.drop()
	return l.cache.drop()
}

// empty makes a tensor without contents, with one handle.
func (l *lane) empty(m shape.Meta) (Tensor, error) {
	if m.DType.Size() == 0 {
		return Tensor{}, fmt.Errorf("%v has no element type", m)
	}
	x, dropped, err := l.takeEmpty(m)
	for _, e := range dropped {
		e.release()
	}
	return x, err
}

func (l *lane) takeEmpty(m shape.Meta) (x Tensor, dropped []*entry, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dropped = l.dropFull()
	r, err := l.memory.take(&l.home, l.memory.pool(m, device.Activation))
	if err != nil {
		return Tensor{}, dropped, err
	}
	r.refs = 1
	return Tensor{r, r.gen}, dropped, nil
}

// variant finds or compiles an executable of an entry, for a call of that era. Only the
// lane's goroutine calls it.
func (l *lane) variant(e *entry, donated uint64, of *era) (*variant, error) {
	l.mu.Lock()
	v := e.compiled(donated)
	l.mu.Unlock()
	if v != nil {
		return v, nil
	}
	v, err := e.compile(l.dev, donated, of.ended)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := v.exe.Memory().Temporary; n > 0 {
		v.scratch = l.memory.pool(shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(n))}, device.Scratch)
	}
	e.exes = append(e.exes, v)
	return v, nil
}

// done ends a queued call of an entry.
func (l *lane) done(e *entry) {
	l.mu.Lock()
	over := e.ended()
	l.mu.Unlock()
	if over {
		e.release()
	}
}
