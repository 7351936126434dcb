package console

import (
	"bytes"
	"errors"
	"testing"
)

var errFull = errors.New("full")

// narrow fails after so many writes.
type narrow struct {
	bytes.Buffer
	room, tried int
}

func (n *narrow) Write(b []byte) (int, error) {
	if n.tried++; n.tried > n.room {
		return 0, errFull
	}
	return n.Buffer.Write(b)
}

func TestStreamPrintsNothingAfterAFailure(t *testing.T) {
	to := &narrow{room: 1}
	s := NewStream(to)
	for i, want := range []error{nil, errFull, errFull, errFull} {
		if _, err := s.Write([]byte("x")); !errors.Is(err, want) || !errors.Is(s.Err(), want) {
			t.Errorf("write %d: %v, then %v, want %v", i, err, s.Err(), want)
		}
	}
	if to.String() != "x" || to.tried != 2 {
		t.Errorf("%q after %d writes, want \"x\" after 2", to.String(), to.tried)
	}
}
