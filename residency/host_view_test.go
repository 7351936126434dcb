package residency

import (
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/ledger"
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
		d, err := r.m.EnsureHost(short(t), ledger.Checkpoint, w)
		if err != nil {
			t.Fatal(err)
		}
		if got := shape.View[float32](d); got[0] != 1 || got[1] != 5 {
			t.Fatalf("pulled %v", got)
		}
	}
	l := r.m.Ledger()
	if c := l.Total(ledger.PullBack); c != (ledger.Count{Count: 1, Bytes: 8}) {
		t.Errorf("pulled back %v", c)
	}
	if c := l.OfReason(ledger.Checkpoint); c != (ledger.Count{Count: 1, Bytes: 8}) {
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

// A spill is residency's own: the host reads what left a full device only after a
// pull-back, and under a seal only after one for an allowed reason.
func TestSpillIsNotForTheHost(t *testing.T) {
	r := newRig(t, 1, rigOptions{tenant: TenantOptions{Strict: true, Peaks: []int64{16}}}, capacity(8))
	w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
	r.m.Seal()
	r.write(w, 0, 'w')
	r.write(v, 0, 'v')
	if got := w.Location(); got != "host" {
		t.Fatalf("w is at %s", got)
	}
	if _, err := r.m.Host(w); !errors.Is(err, ErrStale) {
		t.Errorf("host read of a spill: %v", err)
	}
	s := r.m.NewStaging(w)
	defer s.Close()
	if err := errors.Join(r.m.PullBack(short(t), ledger.Log, w), s.Queue(short(t), ledger.Log, 0)); !errors.Is(err, ErrNotResident) {
		t.Errorf("a pull-back of a spill under a seal: %v", err)
	}
	r.m.Unseal(ledger.Epoch)
	if err := s.Queue(short(t), ledger.Epoch, 0); err != nil {
		t.Error(err)
	}
	if _, err := r.m.Host(w); !errors.Is(err, ErrStale) {
		t.Errorf("host read of a spill that is staged: %v", err)
	}
	d, err := r.m.EnsureHost(short(t), ledger.Epoch, w)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(d); got != "wwwwwwww" {
		t.Errorf("pulled %q", got)
	}
}

// Bytes on their way from one device to another through the host are not for the
// host either.
func TestTransitIsNotForTheHost(t *testing.T) {
	r := newRig(t, 2, rigOptions{}, func(_ int, d *fakeDev) { d.peers = false })
	w := r.declare("w", 8, device.Weight)
	r.write(w, 0, 'w')
	r.mustRead(w, 1, 'w')
	if _, err := r.m.Host(w); !errors.Is(err, ErrStale) {
		t.Errorf("host read of bytes on their way: %v", err)
	}
	if _, err := r.m.EnsureHost(short(t), ledger.Fetch, w); err != nil {
		t.Error(err)
	}
}

// A transit takes the host memory of the device that does not address it itself, in
// either direction, and takes it again for the next contents.
func TestTransitMemory(t *testing.T) {
	r := newRig(t, 2, rigOptions{}, func(i int, d *fakeDev) { d.peers, d.addresses = false, i == 0 })
	w := r.declare("w", 8, device.Weight)
	for i := range byte(4) {
		r.write(w, int(i%2), i)
		r.mustRead(w, 1-int(i%2), i)
	}
	if got := []int{r.devs[0].hosts, r.devs[1].hosts}; got[0] != 0 || got[1] != 1 {
		t.Errorf("blocks of host memory by device: %v, want [0 1]", got)
	}
}
