package addresses

import (
	"strings"
	"testing"
)

func TestTooFew(t *testing.T) {
	const most = 1 << 40
	if text := tooFew(most); text != "" {
		t.Errorf("%d bytes are too few: %s", int64(most), text)
	}
	text := tooFew(least - 1)
	if !strings.HasPrefix(text, "the address space is limited to 1.3 GiB (ulimit -v), and this program needs at least ") {
		t.Errorf("got %q", text)
	}
	if text := tooFew(least); (text != "") != usesC {
		t.Errorf("with threads of the C library, %t: %q", usesC, text)
	}
}
