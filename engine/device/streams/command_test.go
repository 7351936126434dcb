package streams

import (
	"bytes"
	"slices"
	"testing"
)

// paged is host memory that notes what is evicted.
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
