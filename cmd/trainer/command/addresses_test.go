package command

import (
	"strings"
	"testing"
)

func TestTooFewAddresses(t *testing.T) {
	const most = 1 << 40
	if text := tooFewAddresses(most, 256); text != "" {
		t.Errorf("%d bytes are too few: %s", int64(most), text)
	}
	text := tooFewAddresses(leastAddresses-1, 2)
	if !strings.HasPrefix(text, "the address space is limited to 1.3 GiB (ulimit -v), and this program needs at least ") {
		t.Errorf("got %q", text)
	}
	if one, two := tooFewAddresses(leastAddresses+threadAddresses, 1), tooFewAddresses(leastAddresses+threadAddresses, 2); one != "" || usesC && two == "" {
		t.Errorf("one core: %q; two: %q", one, two)
	}
}
