package residency

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
)

// A tensor is confined to the devices that have it, and not before its contents have arrived there: then its only contents would
// be those of a copy that may fail.
func TestConfine(t *testing.T) {
	r := newRig(t, 3, rigOptions{})
	x := r.declare("x", 8, device.Weight)
	r.fill(x, 'a')
	r.write(x, 0, 'b')
	to := []Need{{x, 1, Read}, {x, 2, Read}}
	where := func(want string) {
		t.Helper()
		if got := x.Location(); got != want {
			t.Errorf("it is at %s, want %s", got, want)
		}
	}
	if r.m.Confine(to) {
		t.Error("it is confined to devices that do not have it")
	}
	where("fake:0")
	if err := r.m.Prefetch(short(t), to[:1]); err != nil {
		t.Fatal(err)
	}
	free := r.devs[2].stream("peer").hold()
	if err := r.m.Prefetch(short(t), to); err != nil {
		t.Fatal(err)
	}
	if r.m.Confine(to) {
		t.Error("it is confined to a device where it has not arrived")
	}
	where("fake:0, clean on fake:1, fake:2")
	free()
	if failures := r.m.Settle(); failures != nil {
		t.Fatal(failures)
	}
	if !r.m.Confine(to) {
		t.Error("it is not confined to devices that have it")
	}
	where("fake:1, clean on fake:2")
	r.mustRead(x, 2, 'b')
	r.write(x, 2, 'c')
	r.mustRead(x, 0, 'c')
	conserved(t, r)
}
