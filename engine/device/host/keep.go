package host

import "github.com/berth-ml/berth/engine/device"

// Keeper is a Kernel that reads one input in an order of its own, and can keep
// it in that order for as long as the input does not change.
type Keeper interface {
	Kernel
	// Keeps says which input that is, the bytes it takes in that order, and what
	// the order is: kernels with equal layouts make the same of the same input.
	// With 0 bytes nothing is kept.
	Keeps() (input int, bytes int64, layout string)
	// Keep gives the next runs memory for it; made says that it is there already.
	// Without memory, nil, a run does all itself.
	Keep(memory []byte, made bool)
}

// kept is what kernels keep of a buffer in one layout. It is made when a run finds
// the same contents as the run before, and made anew for new contents for as long
// as the old ones were read more than once: so weights are kept through the
// microbatches of a step, or an evaluation, and not where each run finds them
// changed. It goes where memory gets short. All fields are under dev.mu.
type kept struct {
	layout string
	span
	held  bool   // span is memory
	gone  bool   // its memory was needed for something else: it goes, and is not kept again
	inUse bool   // a kernel runs with it
	again bool   // the contents were read more than once
	last  uint64 // the contents that the last run found
	made  uint64 // the contents that memory holds, 0 for none
	next  *kept  // of the same buffer
}

// keeping is an instruction's kernel that keeps one of the graph's inputs.
type keeping struct {
	Keeper
	index  int // of the input
	layout string
	bytes  int64
	buffer *buffer // that found is of
	found  *kept
}

// keeps sets in.keep where the kernel keeps an input of the graph.
func (x *executable) keeps(in *instr, st *step) {
	k, ok := in.kernel.(Keeper)
	if !ok {
		return
	}
	input, bytes, layout := k.Keeps()
	if bytes == 0 {
		return
	}
	if s := st.in[input]; s.place == inInput {
		in.keep = &keeping{Keeper: k, index: s.index, layout: layout, bytes: bytes}
	}
}

// before gives the kernel what is kept of b, or memory to make it in, or
// neither.
func (k *keeping) before(b *buffer) {
	d := b.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if k.buffer != b {
		k.buffer, k.found = b, b.keptAs(k.layout, k.bytes)
	}
	e, now := k.found, b.written.Load()
	same := now != 0 && e.last == now
	switch {
	case same:
		e.again = true
		if !e.held && !e.gone {
			e.off, e.held = d.spare(e.size)
		}
	case e.held && !e.again:
		d.drop(e)
	default:
		e.again = false
	}
	e.last = now
	if e.held {
		e.inUse = true
		k.Keep(d.arena.bytes(e.off, e.size), e.made == now)
	} else {
		k.Keep(nil, false)
	}
}

// after ends a run that began with before; ok says that the kernel did its work.
func (k *keeping) after(ok bool) {
	d, e := k.buffer.dev, k.found
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.made = 0; ok && e.held {
		e.made = e.last
	}
	e.inUse = false
	if e.gone && e.held {
		d.drop(e)
		d.dropped.Broadcast()
	}
}

// keptAs finds or begins what is kept of b in one layout. It needs dev.mu.
func (b *buffer) keptAs(layout string, bytes int64) *kept {
	for e := b.kept; e != nil; e = e.next {
		if e.layout == layout {
			return e
		}
	}
	b.kept = &kept{layout: layout, span: span{size: bytes}, next: b.kept}
	return b.kept
}

// spare reserves memory that can be taken away again. It needs d.mu.
func (d *Device) spare(n int64) (off int64, ok bool) {
	if off, ok = d.take(n); ok {
		d.count(n, device.Scratch)
	}
	return off, ok
}

// drop gives the memory of e back. It needs d.mu.
func (d *Device) drop(e *kept) {
	d.unreserve(e.off, e.size, device.Scratch)
	e.held, e.made, e.again = false, 0, false
}

// dropKept gives back what is kept, if that makes room for n bytes, and reports
// whether to try again. If nothing else is kept, it waits for the kernel that runs with
// some. It needs d.mu.
func (d *Device) dropKept(n int64) bool {
	var all int64
	for b := d.buffers; b != nil; b = b.next {
		for e := b.kept; e != nil; e = e.next {
			if e.held {
				all += e.size
			}
		}
	}
	if all == 0 || d.stats.Live-all+n > d.spec.MemoryBytes {
		return false
	}
	used := true // all of it, by a kernel that runs
	for b := d.buffers; b != nil; b = b.next {
		for e := b.kept; e != nil; e = e.next {
			e.gone = e.gone || e.held
			if e.held && !e.inUse {
				d.drop(e)
				used = false
			}
		}
	}
	if used {
		d.dropped.Wait()
	}
	return true
}
