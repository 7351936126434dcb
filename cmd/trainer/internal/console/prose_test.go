package console

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// In a pipe nothing is broken, however long it is.
func TestProseInPipe(t *testing.T) {
	var out bytes.Buffer
	p := NewProse(NewStream(&out))
	long := strings.Repeat("word ", 100) + "\n"
	if n, err := p.Write([]byte(long)); n != len(long) || err != nil || out.String() != long {
		t.Errorf("%d, %v, %q", n, err, out.String())
	}
	if Room(p) != math.MaxInt {
		t.Errorf("room for %d characters", Room(p))
	}
}
