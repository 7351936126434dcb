package streams

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
)

// paged is host memory that records what is evicted.
type paged struct {
	bytes   []byte
	evicted []int64 // offsets and sizes
}

func (p *paged) Bytes() []byte      { return p.bytes }
func (p *paged) Free() error        { return nil }
func (p *paged) Evict(off, n int64) { p.evicted = append(p.evicted, off, n) }

// TestInPieces reads and writes a paged buffer: it is evicted piece by piece.
func TestInPieces(t *testing.T) {
	const size = 2*pagedPiece + 100
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7 / 5)
	}
	p := &paged{bytes: make([]byte, size)}
	back := make([]byte, size)
	for _, f := range []func(off int64, piece []byte) error{
		func(off int64, piece []byte) error { copy(piece, data[off:]); return nil },
		func(off int64, piece []byte) error { copy(back[off:], piece); return nil },
	} {
		if err := inPieces(p.Bytes(), p, f); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(back, data) {
		t.Error("the copy is not the original")
	}
	once := []int64{0, pagedPiece, pagedPiece, pagedPiece, 2 * pagedPiece, 100}
	if want := slices.Concat(once, once); !slices.Equal(p.evicted, want) {
		t.Errorf("evicted %d, expected %d", p.evicted, want)
	}
}

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
