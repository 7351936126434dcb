package host

import (
	"bytes"
	"slices"
	"testing"
)

// paged is host memory that notes what is evicted.
type paged struct {
	mine
	evicted []int64 // offsets and sizes
}

func (p *paged) Evict(off, n int64) { p.evicted = append(p.evicted, off, n) }

// TestCopyPaged copies from and to a paged buffer: it is evicted piece by piece.
func TestCopyPaged(t *testing.T) {
	const size = 2*pagedPiece + 100
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7 / 5)
	}
	p := &paged{mine: mine{make([]byte, size)}}
	back := make([]byte, size)
	copyPaged(p.Bytes(), data, p)
	copyPaged(back, p.Bytes(), p)
	if !bytes.Equal(back, data) {
		t.Error("the copy is not the original")
	}
	once := []int64{0, pagedPiece, pagedPiece, pagedPiece, 2 * pagedPiece, 100}
	if want := slices.Concat(once, once); !slices.Equal(p.evicted, want) {
		t.Errorf("evicted %d, expected %d", p.evicted, want)
	}
	copyPaged(nil, p.Bytes(), p) // memory that is only counted
}
