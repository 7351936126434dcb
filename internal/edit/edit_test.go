package edit_test

import (
	"strings"
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

func TestNearest(t *testing.T) {
	words := []string{"batch", "epochs", "lr", "Kernel"}
	for _, c := range []struct {
		word  string
		edits int
		want  string
	}{
		{"bacth", 1, "batch"}, {"bacth", 0, ""}, {"kernal", 1, "Kernel"}, {"x", 2, ""}, {"", 9, ""}, {strings.Repeat("batch", 20), 200, ""}, {"lr", 0, "lr"},
	} {
		if got := edit.Nearest(c.word, words, c.edits); got != c.want {
			t.Errorf("Nearest(%q, %d edits) is %q, want %q", c.word, c.edits, got, c.want)
		}
	}
}

func TestNearestFlag(t *testing.T) {
	flags := []string{"allow-changed", "devices", "fresh", "max-steps", "max-time", "resume", "run", "set", "threads"}
	for word, want := range map[string]string{
		"device": "devices", "max-step": "max-steps", "maxsteps": "max-steps", "rseume": "resume", "rnu": "run",
		"thread": "threads", "xyz": "", "z": "", "nosuch": "", "": "",
	} {
		if got := edit.Nearest(word, flags, len(word)/3); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
