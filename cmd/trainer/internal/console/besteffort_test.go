package console

import (
	"errors"
	"testing"
)

func TestBestEffortReportsSuccess(t *testing.T) {
	to := &narrow{room: 1}
	s := NewStream(to)
	var told []error
	p := NewBestEffort(s, func(err error) { told = append(told, err) })
	for range 4 {
		if n, err := p.Write([]byte("xy")); n != 2 || err != nil {
			t.Errorf("write: %d, %v", n, err)
		}
	}
	if to.String() != "xy" || to.tried != 2 || len(told) != 1 || !errors.Is(told[0], errFull) || s.Err() != nil {
		t.Errorf("%q after %d writes; told %v; the stream has %v", to.String(), to.tried, told, s.Err())
	}
}
