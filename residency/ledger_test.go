package residency

import (
	"context"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/golden"
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
	check(r.m.PullBack(short(t), Epoch, loss))
	check(r.m.PullBack(short(t), Checkpoint, w, loss))
	r.m.Ledger().Boundary()
	golden.Check(t, "testdata/ledger.txt", r.m.Ledger().String())
	s := r.m.Ledger().SteadyState()
	flat := func(n int64) Series { return Series{n, n, n, n} }
	if want := (Steady{2, flat(16), flat(32), flat(0), flat(0)}); s != want {
		t.Errorf("steady state %+v, want %+v", s, want)
	}
	if c := r.m.Ledger().OfUsage(CopyIn, device.Weight); c.Bytes != 64 {
		t.Errorf("weights went in with %d bytes", c.Bytes)
	}
	conserved(t, r)
}

func TestSeriesMedian(t *testing.T) {
	l := newLedger([]string{"d"}, nil)
	for _, n := range []int64{100, 7, 3, 3, 9} { // the first is not steady
		l.now[trackIn] = n
		l.Step()
	}
	if got, want := l.SteadyState().CopyIn, (Series{3, 3, 9, 9}); got != want {
		t.Errorf("series %+v, want %+v", got, want)
	}
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
		"copyin":   l.Total(CopyIn).Bytes + l.Total(StreamIn).Bytes,
		"copypeer": l.Total(Peer).Bytes,
		"copyout":  l.Total(PullBack).Bytes + l.Total(Spill).Bytes,
	} {
		if moved[op] != want {
			t.Errorf("%s moved %d bytes, the ledger has %d", op, moved[op], want)
		}
	}
}
