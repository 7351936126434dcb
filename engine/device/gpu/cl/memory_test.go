package cl

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
)

// Ranges move within a memory, also where they overlap, and between memories with a
// context of their own or a common one.
func TestMoves(t *testing.T) {
	list, err := usable()
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	const size = 3*pieceBytes + 5000
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	open := func(c *context) *memory {
		m, err := reserve(c, size)
		if err == nil {
			err = m.CopyIn(0, data)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	one, err1 := openContext(list[0])
	two, err2 := openContext(list[0])
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	m, same, other := open(one), open(one.share()), open(two)
	want, got := bytes.Clone(data), make([]byte, size)
	for range testall.Or(6, 60) {
		n := random.Int64N(size)
		from, to := random.Int64N(size-n), random.Int64N(size-n)
		of := []*memory{m, same, other}[random.IntN(3)]
		source := data
		if of == m {
			err, source = m.Move(to, from, n), want
		} else {
			err = m.CopyFrom(to, of, from, n)
		}
		if err == nil {
			err = m.CopyOut(got, 0)
		}
		copy(want[to:to+n], source[from:from+n])
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes from %d to %d: %v", n, from, to, err)
		}
	}
	for _, m := range []*memory{m, same, other} {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
