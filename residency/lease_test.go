package residency

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
)

// TestAbandon: an abandoned lease changes nothing.
func TestAbandon(t *testing.T) {
	r := newRig(t, 2, rigOptions{})
	w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
	r.write(w, 0, 'a')
	var l Lease
	if err := r.m.Acquire(short(t), r.compute[0], []Need{{w, 0, Write}, {v, 0, Write}}, 0, &l); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Abandon(&l); err != nil {
		t.Fatal(err)
	}
	r.mustRead(w, 1, 'a')
	if got := v.Location(); got != "nowhere" {
		t.Errorf("v is at %s", got)
	}
	if b := r.devs[0].Stats().Live; b != 8 {
		t.Errorf("%d bytes held, want w's 8", b)
	}
}
