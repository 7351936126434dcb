package residency

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

func TestSeal(t *testing.T) {
	r := newRig(t, 2, rigOptions{tenant: TenantOptions{Strict: true}}, capacity(40), func(i int, d *fakeDev) {
		if i == 1 {
			d.peers = false
		}
	})
	w, v, x := r.declare("w", 16, device.Weight), r.declare("v", 8, device.Weight), r.declare("x", 16, device.Input)
	r.fill(w, 'w')
	r.fill(v, 'v')
	r.write(w, 0, 'w')
	r.m.Seal()
	refused := func(err error, parts ...string) {
		t.Helper()
		if !errors.Is(err, ErrNotResident) {
			t.Fatalf("error is %v", err)
		}
		for _, p := range parts {
			if !strings.Contains(err.Error(), p) {
				t.Errorf("%q does not say %q", err, p)
			}
		}
	}
	if err := r.m.Feed(x, r.hostBuffer(16, 'x')); err != nil {
		t.Fatal(err)
	}
	r.mustRead(x, 0, 'x')
	refused(r.read(v, 0, 'v'), "copy-in", "v u8[8]", "read")
	refused(r.read(w, 1, 'w'), "transit", "w")
	refused(r.m.PullBack(short(t), ledger.Checkpoint, w), "checkpoint", "w")
	big := r.declare("big", 24, device.Activation)
	refused(r.task(0, func([][]byte) error { return nil }, Need{big, 0, Write}, Need{x, 0, Read}), "spill", "w", "over budget")
	r.m.Unseal(ledger.Checkpoint)
	if err := r.m.PullBack(short(t), ledger.Checkpoint, w); err != nil {
		t.Fatal(err)
	}
	r.write(w, 0, 'v')
	refused(r.m.PullBack(short(t), ledger.Log, w), "log", "w")
}

// TestSealCollects: Allowed lists the allowed transfers.
func TestSealCollects(t *testing.T) {
	r := newRig(t, 1, rigOptions{tenant: TenantOptions{Strict: true}})
	w, x := r.declare("w", 16, device.Weight), r.declare("x", 8, device.Input)
	r.write(w, 0, 'w')
	r.m.Seal()
	for range 2 {
		if err := r.m.Feed(x, r.hostBuffer(8, 'x')); err != nil {
			t.Fatal(err)
		}
		r.mustRead(x, 0, 'x')
	}
	r.m.Unseal(ledger.Log)
	if err := r.m.PullBack(short(t), ledger.Log, w); err != nil {
		t.Fatal(err)
	}
	r.m.Seal()
	r.write(w, 0, 'v')
	if err := r.m.PullBack(short(t), ledger.Log, w); !errors.Is(err, ErrNotResident) {
		t.Errorf("after the next seal: %v", err)
	}
	r.m.Unseal()
	if err := r.m.PullBack(short(t), ledger.Debug, w); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(r.m.Allowed())
	want := "[copy-in of input: 2 transfers, 16 B, first x pull-back (log) of weight: 1 transfer, 16 B, first w]"
	if got != want {
		t.Errorf("allowed %s, want %s", got, want)
	}
	loose := newRig(t, 1, rigOptions{})
	v := loose.declare("v", 8, device.Weight)
	loose.fill(v, 'v')
	loose.m.Seal()
	loose.mustRead(v, 0, 'v')
}

// TestSealAnnounced: on a device that a plan called tight, tensors leave and come
// back, and are named; on another, and for other reasons, they do not.
func TestSealAnnounced(t *testing.T) {
	r := newRig(t, 2, rigOptions{tenant: TenantOptions{Strict: true, Peaks: []int64{41}}}, capacity(40))
	ws := make([]*Tensor, 4)
	for i := range ws {
		ws[i] = r.declare(fmt.Sprint("w", i), 16, device.Weight)
		r.fill(ws[i], byte(i))
	}
	r.m.Seal()
	for range 2 {
		for i, w := range slices.Backward(ws) {
			r.mustRead(w, 0, byte(i))
			r.write(w, 0, byte(i))
		}
	}
	list := r.m.Allowed()
	if len(list) != 2 || list[0].Kind != ledger.CopyIn || list[1].Kind != ledger.Spill || len(list[0].Names) != 4 || len(list[1].Names) != 4 {
		t.Fatalf("allowed: %v", list)
	}
	if got := list[1].String(); !strings.Contains(got, "spill (spill) of weight") || !strings.Contains(got, "as planned: w0, w1, w2, w3") {
		t.Errorf("got %q", got)
	}
	if err := r.m.PullBack(short(t), ledger.Checkpoint, ws[0]); !errors.Is(err, ErrNotResident) {
		t.Errorf("a pull-back: %v", err)
	}
	r.mustRead(ws[3], 1, 3) // which it left the first device for
	r.m.Unseal()
	never := r.declare("never", 16, device.Weight)
	r.fill(never, 'n')
	r.m.Seal()
	if err := r.read(never, 1, 0); !errors.Is(err, ErrNotResident) {
		t.Errorf("a copy to the other device of a tensor that left none: %v", err)
	}
}

// Values that devices hand on through the host do so under a seal if they were
// announced, and are named; others do not.
func TestSealPassing(t *testing.T) {
	r := newRig(t, 2, rigOptions{tenant: TenantOptions{Strict: true, Passing: []string{"x"}}}, func(_ int, d *fakeDev) { d.peers = false })
	x, y := r.declare("x", 8, device.Activation), r.declare("y", 8, device.Activation)
	r.m.Seal()
	for i := range byte(2) {
		r.write(x, 0, i)
		r.mustRead(x, 1, i)
	}
	r.write(y, 0, 'y')
	if err := r.read(y, 1, 'y'); !errors.Is(err, ErrNotResident) {
		t.Errorf("a value that was not announced: %v", err)
	}
	got := fmt.Sprint(r.m.Allowed())
	want := "[pull-back (transit) of activation: 2 transfers, 16 B, as planned: x copy-in (transit) of activation: 2 transfers, 16 B, as planned: x]"
	if got != want {
		t.Errorf("allowed %s, want %s", got, want)
	}
	if err := r.m.PullBack(short(t), ledger.Fetch, x); !errors.Is(err, ErrNotResident) {
		t.Errorf("a pull-back: %v", err)
	}
}
