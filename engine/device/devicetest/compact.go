package devicetest

import (
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// testCompact moves buffers together, on devices that can: their contents stay,
// a move waits for queued work that uses the memory, and work of other streams
// that waits for the move finds the contents.
func testCompact(t *testing.T, open Opener) {
	const row = 64 // elements: 256 bytes
	with(t, open, device.OpenOptions{MemoryBytes: 6 * 256}, func(r *rig) {
		c, ok := r.s.(device.Compactor)
		if !ok || !r.computes() {
			t.Skip("buffers do not move")
		}
		// In order of offset: a, kept, b, large and fixed. The gate holds the last
		// use of b up.
		a, kept, b := r.upload(repeat(1, row), row), r.upload(repeat(2, row), row), r.upload(repeat(3, row), row)
		large, fixed := r.upload(repeat(4, 2*row), 2*row), r.upload(repeat(5, row), row)
		g, other := newGate(), r.stream("other")
		r.ok(other.WaitFor(g.event()))
		h := r.host(256)
		read, err := other.CopyOut(h, b)
		r.ok(err)
		r.ok(a.Free(r.s.Record()))
		r.ok(b.Free(read))
		ask := func(bytes int64) bool {
			room, err := c.Compact(bytes, &mover{fixed: fixed, moved: func(from, to device.Buffer) {
				if from == kept {
					kept = to
				} else {
					large = to
				}
			}})
			r.ok(err)
			return room
		}
		before := large
		if !ask(512) || large != before {
			t.Fatal("one buffer should have moved to make room for 512 bytes")
		}
		if ask(768) {
			t.Error("there is room for more than is free")
		}
		x := r.alloc(shape.F32(2 * row)) // takes the place of kept and b
		time.Sleep(5 * time.Millisecond)
		if late := r.s.Record(); late.Done() {
			t.Error("the taker did not wait for the use of its memory")
		}
		g.open(nil)
		r.ok(other.WaitFor(r.s.Record()))
		out, err := other.CopyOut(h, kept)
		r.ok(err)
		r.ok(r.wait(out))
		r.expect(kept, repeat(2, row)...)
		r.expect(large, repeat(4, 2*row)...)
		r.expect(fixed, repeat(5, row)...)
		r.sync(other)
		r.drop(x, kept, large, fixed)
		r.ok(h.Free())
		r.ok(other.Close())
	})
}

// mover lets all buffers move but one.
type mover struct {
	fixed device.Buffer
	moved func(from, to device.Buffer)
}

func (m *mover) Movable(b device.Buffer) bool { return b != m.fixed }

func (m *mover) Uses(b device.Buffer) []device.Event { return []device.Event{b.Ready()} }

func (m *mover) Moved(from, to device.Buffer, _ device.Event) { m.moved(from, to) }
