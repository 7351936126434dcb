package datasets

import (
	"encoding/binary"
	"testing"
)

// idx is an IDX file of bytes counting up.
func idx(dims ...int) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	n := 1
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
		n *= d
	}
	for i := range n {
		b = append(b, byte(i%10))
	}
	return b
}

func FuzzIDX(f *testing.F) {
	f.Add(idx(2, 3, 4), 3)
	f.Add(idx(5), 1)
	f.Add([]byte{0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, 3)
	f.Fuzz(func(t *testing.T, b []byte, rank int) {
		if rank != 1 && rank != 3 {
			return
		}
		a, err := parseIDX(streamOf(b), rank)
		if err != nil {
			return
		}
		if data, err := a.stored(t.Context()); err != nil || a.shape.Elems() != len(data) || len(data) > len(b) {
			t.Fatalf("%v with %d bytes, %v", a.shape, len(data), err)
		}
	})
}
