package gen

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// between is the bytes that lie before and after each value of a trial in a device's
// memory. Kernels must neither read nor write them.
const between = 128

// layout is where the values of a trial lie in the memory, and its size.
type layout struct {
	at      map[*graph.Value]int // offsets in bytes
	made    []*graph.Value       // the values that kernels write
	scratch int
	size    int
}

func (s trial) layout() layout {
	l := layout{at: map[*graph.Value]int{}, size: between}
	take := func(bytes int64) (at int) {
		at = l.size
		l.size = up(at+int(bytes), between) + between
		return at
	}
	for _, v := range s.in {
		l.at[v] = take(v.Meta.Bytes())
	}
	scratch := int64(0)
	for _, st := range s.steps {
		scratch = max(scratch, st.scratch)
		for _, v := range st.cluster.Out {
			if st.calls == nil && len(st.cluster.In) > 0 {
				l.at[v] = l.at[st.cluster.In[0]] // a view, or a node without elements
				continue
			}
			l.at[v] = take(v.Meta.Bytes())
			l.made = append(l.made, v)
		}
	}
	l.scratch = take(scratch)
	return l
}

// argument is the argument of a kernel of a step.
func (d *driver) argument(l layout, st step, site int, a Arg) (v uint64, err error) {
	switch a.Role {
	case In:
		return uint64(l.at[st.cluster.In[a.Index]] + int(a.Value)), nil
	case Out:
		return uint64(l.at[st.cluster.Out[a.Index]] + int(a.Value)), nil
	case Scratch:
		return uint64(l.scratch + int(a.Value)), nil
	case Site:
		return uint64(site), nil
	case Table:
		b := shape.Bytes(*a.Floats)
		h, err := d.buffer(len(b), b)
		return uint64(h), err
	}
	return uint64(a.Value), nil
}

// moveWords moves words between a value's memory and a buffer of its own: so nothing
// but inputs and what kernels wrote counts as initialised.
const moveWords = `KERNEL void move_words(GLOBAL u32* to, GLOBAL const u32* from, u64 toAt, u64 fromAt, u64 n) { if (ITEM < (i64)n) to[toAt / 4 + ITEM] = from[fromAt / 4 + ITEM]; }
`

func (d *driver) moveWords(to, from uintptr, toAt, fromAt, size int) error {
	return d.run("move_words", up(size/4, GroupLanes), GroupLanes, uint64(to), uint64(from), uint64(toAt), uint64(fromAt), uint64(size/4))
}

// effect is what a trial's kernels did.
type effect struct {
	Status int32  // the status word
	Bits   string // a checksum of what they wrote; none where Status is not 0
	Intact bool   // nothing changed beside it
}

// runTrial runs a trial's kernels with work groups of some size.
func (d *driver) runTrial(s trial, group int) (o effect, err error) {
	l := s.layout()
	memory, err := d.buffer(l.size, nil)
	if err != nil {
		return o, err
	}
	status, err := d.buffer(between, make([]byte, between))
	if err != nil {
		return o, err
	}
	before, err := d.read(memory, l.size)
	if err != nil {
		return o, err
	}
	for i, v := range s.in {
		if err := d.load(memory, l.at[v], s.bytes[i]); err != nil {
			return o, err
		}
	}
	for i, st := range s.steps {
		for _, c := range st.calls {
			args := []uint64{uint64(memory), uint64(status)}
			for _, a := range c.Args {
				v, err := d.argument(l, st, i+1, a)
				if err != nil {
					return o, err
				}
				args = append(args, v)
			}
			lanes, size := c.Lanes(group)
			if err := d.run(c.Name, lanes, size, args...); err != nil {
				return o, err
			}
		}
	}
	return d.effect(s, l, memory, status, before)
}

// load writes b to an offset of the memory, by a kernel.
func (d *driver) load(memory uintptr, at int, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	from, err := d.buffer(len(b), b)
	if err != nil {
		return err
	}
	return d.moveWords(memory, from, at, 0, len(b))
}

// effect reads what a trial's kernels left. before is the memory as it was, uninitialised.
func (d *driver) effect(s trial, l layout, memory, status uintptr, before []byte) (o effect, err error) {
	word, err := d.read(status, between)
	if err != nil {
		return o, err
	}
	o.Status = int32(binary.NativeEndian.Uint32(word))
	o.Intact = bytes.Equal(word[4:], make([]byte, between-4))
	after, err := d.read(memory, l.size)
	if err != nil {
		return o, err
	}
	sum := sha256.New()
	for _, v := range l.made {
		n := int(v.Meta.Bytes())
		if o.Status == 0 && n > 0 {
			to, err := d.buffer(n, nil)
			if err == nil {
				err = d.moveWords(to, memory, 0, l.at[v], n) // the checker complains of words that were not written
			}
			if err != nil {
				return o, err
			}
			sum.Write(oneNaN(v.Meta.DType, after[l.at[v]:][:n]))
		}
		copy(after[l.at[v]:][:n], before[l.at[v]:])
	}
	if o.Status == 0 {
		o.Bits = fmt.Sprintf("%x", sum.Sum(nil)[:8])
	}
	for _, v := range s.in {
		copy(after[l.at[v]:][:v.Meta.Bytes()], before[l.at[v]:])
	}
	copy(after[l.scratch:l.size-between], before[l.scratch:])
	o.Intact = o.Intact && bytes.Equal(after, before)
	return o, nil
}

// oneNaN is b with one sort of NaN: which of two a sum keeps is the compiler's choice.
func oneNaN(t shape.DType, b []byte) []byte {
	if t != shape.Float32 {
		return b
	}
	b = bytes.Clone(b)
	for i, v := range shape.View[float32](b) {
		if v != v {
			shape.View[float32](b)[i] = float32(math.NaN())
		}
	}
	return b
}
