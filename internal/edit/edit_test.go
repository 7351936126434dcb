package edit_test

import (
	"testing"

	"github.com/berth-ml/berth/internal/edit"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "ab", 2}, {"batch", "batch", 0}, {"batch", "bacth", 1}, {"ab", "ba", 1}, {"epoch", "epochs", 1},
		{"lr", "l", 1}, {"kernal", "kernel", 1}, {"abcd", "badc", 2}, {"lstm", "sum", 2}, {"Batch", "batch", 1},
	} {
		if got := edit.Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := edit.Distance(c.b, c.a); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
