package paging

import "testing"

// TestServes: a copy out of contents that are read three more times serves the gaps
// before, between and behind these uses.
func TestServes(t *testing.T) {
	use := func(writes bool) Launch { return Launch{Uses: []Use{{Object: 0, Read: true, Write: writes}}} }
	o := NewOrder(&Trace{
		Objects:  []Object{{Bytes: 1, Lasting: true}, {Bytes: 1}},
		Launches: []Launch{use(true), use(false), {}, use(false), use(false), use(true), {}},
	})
	for now, want := range []bool{true, false, false, false, false, false, false} {
		if got := o.Serves(0, now); got != want {
			t.Errorf("after launch %d: %v", now, got)
		}
	}
	if o.Serves(1, 0) {
		t.Error("an object without uses is served")
	}
}
