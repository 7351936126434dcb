package residency

import (
	"context"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/golden"
	"github.com/berth-ml/berth/residency/ledger"
)

// TestLedgerGolden runs three steps of training by hand and compares the table.
func TestLedgerGolden(t *testing.T) {
	r := newRig(t, 2, rigOptions{})
	w, a := r.declare("w", 64, device.Weight), r.declare("a", 32, device.Activation)
	x, loss := r.declare("x", 16, device.Input), r.declare("loss", 4, device.Scratch)
	r.fill(w, 'w')
	r.fill(loss, 0)
	hb := r.hostBuffer(16, 'x')
	nop := func([][]byte) error { return nil }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		check(r.m.Feed(x, hb))
		check(r.task(0, nop, Need{x, 0, Read}, Need{w, 0, Read}, Need{a, 0, Write}))
		check(r.task(1, nop, Need{a, 1, Read}, Need{loss, 1, ReadWrite}))
		check(r.task(0, nop, Need{w, 0, ReadWrite}, Need{a, 0, Read}))
		check(r.m.Drop(a))
		ev, ok := r.m.FeedDone(x)
		if !ok {
			t.Fatal("batch not handed back")
		}
		check(ev.Wait(short(t)))
		check(r.compute[0].Record().Wait(short(t)))
		r.m.Ledger().Step()
	}
	check(r.m.PullBack(short(t), ledger.Epoch, loss))
	check(r.m.PullBack(short(t), ledger.Checkpoint, w, loss))
	r.m.Ledger().Boundary()
	golden.Check(t, "testdata/ledger.txt", r.m.Ledger().String())
	s := r.m.Ledger().SteadyState()
	flat := func(n int64) ledger.Series { return ledger.Series{Min: n, Median: n, Max: n, Last: n} }
	if want := (ledger.Steady{Steps: 2, CopyIn: flat(16), Peer: flat(32), PullBack: flat(0), Spill: flat(0)}); s != want {
		t.Errorf("steady state %+v, want %+v", s, want)
	}
	if c := r.m.Ledger().OfUsage(ledger.CopyIn, device.Weight); c.Bytes != 64 {
		t.Errorf("weights went in with %d bytes", c.Bytes)
	}
	conserved(t, r)
}

// conserved checks that the ledger's bytes are those that the devices moved.
func conserved(t interface{ Errorf(string, ...any) }, r *rig) {
	l := r.m.Ledger()
	moved := map[string]int64{}
	for _, d := range r.devs {
		for _, s := range d.streams {
			if err := s.Record().Wait(context.Background()); err != nil {
				t.Errorf("%s %s: %v", d.id, s.name, err)
			}
		}
		d.mu.Lock()
		for op, n := range d.moved {
			moved[op] += n
		}
		d.mu.Unlock()
	}
	for op, want := range map[string]int64{
		"copyin":   l.Total(ledger.CopyIn).Bytes + l.Total(ledger.StreamIn).Bytes,
		"copypeer": l.Total(ledger.Peer).Bytes,
		"copyout":  l.Total(ledger.PullBack).Bytes + l.Total(ledger.Spill).Bytes,
	} {
		if moved[op] != want {
			t.Errorf("%s moved %d bytes, the ledger has %d", op, moved[op], want)
		}
	}
}
