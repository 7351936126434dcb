package configs

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"batch", "epochs", "microbatches", "lr"}
	for word, want := range map[string]string{
		"bacth": "batch", "Batch": "batch", "epoch": "epochs", "micro_batches": "microbatches", "zzzz": "", "": "",
		strings.Repeat("x", 100): "",
	} {
		if got := nearest(word, words); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestListNear(t *testing.T) {
	var many []string
	for c := 'a'; c < 'a'+most; c++ {
		many = append(many, strings.Repeat(string(c), 4))
	}
	few := strings.Join(many, ", ")
	if got := listNear("batch", many); got != few {
		t.Errorf("%s: few words keep their order", got)
	}
	many = append(many, "rescale")
	if got := listNear("17", many); got != few+", …" {
		t.Errorf("%s: words that are all as far keep their order", got)
	}
	if got := listNear("autoscaling", many); !strings.HasPrefix(got, "rescale, ") || !strings.HasSuffix(got, ", …") {
		t.Errorf("%s does not begin with the nearest of many", got)
	}
}
