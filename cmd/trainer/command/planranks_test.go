package command

import "testing"

// TestLinkFlag reads what a link costs, and nothing else.
func TestLinkFlag(t *testing.T) {
	for text, want := range map[string]string{"20us,10GB/s": "20µs,10GB/s", "1ms, 125MB/s": "1ms,0.125GB/s", "0s,1GB/s": "0s,1GB/s"} {
		var f linkFlag
		if err := f.Set(text); err != nil || f.String() != want {
			t.Errorf("%s: %q, %v", text, f.String(), err)
		}
	}
	for _, text := range []string{"", "20us", "20us,10GB", "10GB/s,20us", "-1us,1GB/s", "1us,0B/s"} {
		var f linkFlag
		if err := f.Set(text); err == nil || f.String() != "" {
			t.Errorf("%q is taken as %q", text, f.String())
		}
	}
}
