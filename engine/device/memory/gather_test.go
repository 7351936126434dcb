package memory

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
)

// gather moves blocks for a size, as Gather says. It checks that no fewer bytes
// would do if blocks only slid, and that blocks which only slide are found a way.
func (m *model) gather(t *rapid.T) {
	size := roundUp(rapid.Int64Range(1, 40).Draw(t, "bytes"), m.align)
	fixed := map[*Block]bool{}
	for _, b := range m.live {
		fixed[b] = rapid.IntRange(0, 3).Draw(t, "fixed") == 0
	}
	least := m.least(size, fixed)
	moves, ok := m.s.Gather(size, func(b *Block) bool { return !fixed[b] })
	moved := int64(0)
	for _, x := range slices.Clone(moves) {
		if fixed[x.Block] {
			t.Fatalf("the block at %d is not movable", x.Block.Off)
		}
		moved += x.Block.Size
		m.move(t, x)
	}
	if least >= 0 && (!ok || moved > least) || !ok && moved > 0 {
		t.Fatalf("%d bytes: gathered %v by moving %d, expected at most %d", size, ok, moved, least)
	}
	if ok && m.s.Largest() < size {
		t.Fatalf("after moving, the largest free range is %d of %d", m.s.Largest(), size)
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

// move moves one block.
func (m *model) move(t *rapid.T, x Move) {
	b := x.Block
	off, size := b.Off, b.Size
	slid := x.To < off && m.free(x.To, off) && (x.To == 0 || m.bytes[x.To-1].owner != nil)
	taken := size // bytes from x.To on
	if slid {
		taken = off - x.To
	}
	if !m.free(x.To, x.To+taken) {
		t.Fatalf("%d bytes move to %d, where not all bytes are free", size, x.To)
	}
	want := m.waits(nil, x.To, taken)
	to, rest, after := m.s.Move(x)
	if to.Off != x.To || to.Size != size || slid && rest.Off != to.end() || !slid && rest.Off != off || rest.Size != taken {
		t.Fatalf("%d bytes moved from %d to %d, expected %d; the rest is %d at %d, expected %d", size, off, to.Off, x.To, rest.Size, rest.Off, taken)
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
	for i := to.Off; i < to.end(); i++ {
		m.bytes[i] = unit{owner: to}
	}
	for i := rest.Off; i < rest.end(); i++ {
		m.bytes[i] = unit{uses: map[device.Queue]uint64{e.Queue: e.Seq}}
	}
	m.s.Give(rest, e)
}

// free reports whether a range is free.
func (m *model) free(from, to int64) bool {
	return !slices.ContainsFunc(m.bytes[from:to], func(u unit) bool { return u.owner != nil })
}

// TestGather moves blocks together between random takes and gives.
func TestGather(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt)
		rt.Repeat(map[string]func(*rapid.T){"take": m.take, "take again": m.take, "give": m.give, "passed": m.pass, "gather": m.gather, "": m.check})
	})
}
