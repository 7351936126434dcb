package cli

import "testing"

func TestNearest(t *testing.T) {
	flags := []string{"allow-changed", "devices", "fresh", "max-steps", "max-time", "resume", "run", "set", "threads"}
	for word, want := range map[string]string{
		"device": "devices", "max-step": "max-steps", "maxsteps": "max-steps", "rseume": "resume", "rnu": "run",
		"thread": "threads", "xyz": "", "z": "", "nosuch": "", "": "",
	} {
		if got := nearest(word, flags); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
