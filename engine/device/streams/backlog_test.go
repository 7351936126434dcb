package streams

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
)

// TestBacklog queues and runs commands in turns of random lengths: each comes out
// once, in order.
func TestBacklog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var b backlog
		var queued, ended uint64
		for range rapid.IntRange(1, 30).Draw(rt, "turns") {
			for range rapid.IntRange(0, 3*pieceSize/2).Draw(rt, "queued") {
				queued++
				b.add(queued, command{event: device.Event{Seq: queued}})
			}
			for n := rapid.IntRange(0, 2*pieceSize).Draw(rt, "ended"); n > 0 && ended < queued; n-- {
				ended++
				c := b.next(ended)
				if c.event.Seq != ended {
					rt.Fatalf("command %d is %d", ended, c.event.Seq)
				}
				*c = command{}
			}
		}
	})
}

// A backlog that is emptied again and again keeps its memory.
func TestBacklogAllocatesNothing(t *testing.T) {
	var b backlog
	var seq, ended uint64
	step := func() {
		for range 3 * pieceSize {
			seq++
			b.add(seq, command{})
		}
		for ; ended < seq; ended++ {
			*b.next(ended + 1) = command{}
		}
	}
	step()
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}
