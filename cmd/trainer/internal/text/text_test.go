package text

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 steps", 1: "1 step", 2: "2 steps", 12345: "12345 steps"} {
		if got := Count(n, "step"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
