package residency

import (
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// TestHostIsNeverImplicit: a stale host read fails, a pull-back mends it, and
// a second one moves nothing.
func TestHostIsNeverImplicit(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w, err := r.m.Declare(Key{Value: "w"}, shape.F32(2), device.Weight)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.m.Fill(w, shape.Bytes([]float32{1, 2})); err != nil {
		t.Fatal(err)
	}
	err = r.task(0, func(in [][]byte) error { shape.View[float32](in[0])[1] = 5; return nil }, Need{w, 0, ReadWrite})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.m.Host(w); !errors.Is(err, ErrStale) {
		t.Fatalf("stale host read: %v", err)
	}
	for range 2 {
		d, err := r.m.EnsureHost(short(t), Checkpoint, w)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Data().([]float32); got[0] != 1 || got[1] != 5 {
			t.Fatalf("pulled %v", got)
		}
	}
	l := r.m.Ledger()
	if c := l.Total(PullBack); c != (Count{1, 8}) {
		t.Errorf("pulled back %v", c)
	}
	if c := l.OfReason(Checkpoint); c != (Count{1, 8}) {
		t.Errorf("for the checkpoint %v", c)
	}
	if err := r.m.PullBack(short(t), "whim", w); err == nil {
		t.Error("an unknown reason was accepted")
	}
}

// TestViewOutlivesWrite: a view outlives a write.
func TestViewOutlivesWrite(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	r.fill(w, 'a')
	err := r.m.View(w, func(b []byte) error {
		r.write(w, 0, 'b')
		if n := hosts(r.devs[0]); n != 1 || string(b) != "aaaaaaaa" {
			t.Errorf("%d host buffers, the view shows %q", n, b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := hosts(r.devs[0]); n != 0 {
		t.Errorf("%d host buffers after the view", n)
	}
}
