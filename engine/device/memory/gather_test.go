package memory

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
)

// gather slides blocks together for a size, as Gather says, and checks that it
// slid as few bytes as possible.
func (m *model) gather(t *rapid.T) {
	size := roundUp(rapid.Int64Range(1, 40).Draw(t, "bytes"), m.align)
	fixed := map[*Block]bool{}
	for _, b := range m.live {
		fixed[b] = rapid.IntRange(0, 3).Draw(t, "fixed") == 0
	}
	want := m.least(size, fixed)
	blocks, ok := m.s.Gather(size, func(b *Block) bool { return !fixed[b] })
	slid := int64(0)
	for _, b := range slices.Clone(blocks) {
		slid += b.Size
		m.slide(t, b)
	}
	if ok != (want >= 0) || ok && slid != want {
		t.Fatalf("%d bytes: gathered %v by sliding %d, expected %d", size, ok, slid, want)
	}
	if ok && m.s.Largest() < size {
		t.Fatalf("after sliding, the largest free range is %d of %d", m.s.Largest(), size)
	}
}

// least is the fewest bytes to slide for a free range of a size, -1 if none
// suffices: over all ranges without fixed blocks, in which size bytes are free.
func (m *model) least(size int64, fixed map[*Block]bool) int64 {
	if m.largest(nil) >= size {
		return 0
	}
	least := int64(-1)
	for i := range m.bytes {
		free, taken := int64(0), int64(0)
		for j := i; j < len(m.bytes); j++ {
			if b := m.bytes[j].owner; b == nil {
				free++
			} else if taken++; fixed[b] || j == i && int64(j) != b.Off {
				break
			}
			if free == size {
				if least < 0 || taken < least {
					least = taken
				}
				break
			}
		}
	}
	return least
}

// slide slides one block.
func (m *model) slide(t *rapid.T, b *Block) {
	off, size := b.Off, b.Size
	first := off
	want := map[device.Queue]uint64{}
	for ; first > 0 && m.bytes[first-1].owner == nil; first-- {
		for q, seq := range m.waits(nil, first-1, 1) {
			want[q] = max(want[q], seq)
		}
	}
	to, rest, after := m.s.Slide(b)
	if to.Off != first || to.Size != size || rest.Off != to.end() || rest.end() != off+size {
		t.Fatalf("%d bytes slid from %d to %d, expected %d; the rest is %d at %d", size, off, to.Off, first, rest.Size, rest.Off)
	}
	for _, e := range after {
		if want[e.Queue] != e.Seq {
			t.Fatalf("the copy waits for %d of %v, expected %d", e.Seq, e.Queue, want[e.Queue])
		}
		delete(want, e.Queue)
	}
	if len(want) > 0 {
		t.Fatalf("the copy does not wait for %v", want)
	}
	m.live = slices.DeleteFunc(m.live, func(x *Block) bool { return x == b })
	m.live = append(m.live, to)
	m.seq++
	e := device.Event{Queue: m.queues[0], Seq: m.seq}
	for i := to.Off; i < rest.end(); i++ {
		if m.bytes[i] = (unit{owner: to}); i >= rest.Off {
			m.bytes[i] = unit{uses: map[device.Queue]uint64{e.Queue: e.Seq}}
		}
	}
	m.s.Give(rest, e)
}

// TestGather slides blocks together between random takes and gives.
func TestGather(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt)
		rt.Repeat(map[string]func(*rapid.T){"take": m.take, "take again": m.take, "give": m.give, "passed": m.pass, "gather": m.gather, "": m.check})
	})
}
