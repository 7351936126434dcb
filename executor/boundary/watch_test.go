package boundary_test

import (
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/residency/ledger"
)

// A copy has the ring as it was behind its step, though others follow at once, and no
// more copies are made than are due.
func TestWatch(t *testing.T) {
	r := smallrun.New(t, "cpu")
	rings := boundary.Rings{Runtime: r.Runtime, Program: r.Program}
	w := rings.NewWatch(models.LossRing, time.Nanosecond)
	defer w.Close()
	time.Sleep(time.Millisecond)
	epoch(t, r)
	if _, _, ok, err := w.After(t.Context(), smallrun.Steps); ok || err != nil {
		t.Fatalf("a copy before one was made: %v", err)
	}
	want, err := rings.Pull(t.Context(), ledger.Epoch, models.LossRing)
	if err != nil {
		t.Fatal(err)
	}
	epoch(t, r) // which writes the ring again
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		at, got, ok, err := w.After(t.Context(), 2*smallrun.Steps)
		if err != nil || time.Now().After(until) {
			t.Fatalf("no copy arrives: %v", err)
		}
		if !ok {
			continue
		}
		for step := 1; step <= smallrun.Steps; step++ {
			if at != smallrun.Steps || got.Of(step) != want.Of(step) {
				t.Errorf("step %d of %d: loss %v, want %v", step, at, got.Of(step), want.Of(step))
			}
		}
		break
	}
	if n := r.Runtime.Residency.Ledger().OfReason(ledger.Watch).Count; n != 1 {
		t.Errorf("%d copies", n)
	}
}
