package residency

import (
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// TestSalvage: the bytes that a failed task left can be read by Salvage alone.
func TestSalvage(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
	r.write(w, 0, 'a')
	r.fill(v, 'v')
	boom := errors.New("boom")
	if err := r.task(0, func([][]byte) error { return boom }, Need{w, 0, ReadWrite}); err != nil {
		t.Fatal(err)
	}
	for x, want := range map[*Tensor]string{w: "aaaaaaaa", v: "vvvvvvvv"} {
		err := r.m.Salvage(short(t), x, func(b []byte) error {
			if string(b) != want {
				t.Errorf("%s left %q", x.Name(), b)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if err := r.m.PullBack(short(t), ledger.Epoch, w); !errors.Is(err, boom) {
		t.Errorf("a pull-back of what failed: %v", err)
	}
	if n := hosts(r.devs[0]); n != 1 {
		t.Errorf("%d host buffers, v's was to be the only one", n)
	}
	if c := r.m.Ledger().OfReason(ledger.Debug); c != (ledger.Count{Count: 1, Bytes: 8}) {
		t.Errorf("counted %v", c)
	}
	u := r.declare("u", 8, device.Weight)
	r.fill(u, 'u')
	if err := r.m.Drop(u); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Salvage(short(t), u, nil); !errors.Is(err, ErrStale) {
		t.Errorf("salvage of nothing: %v", err)
	}
}
