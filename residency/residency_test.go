package residency

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/golden"
)

func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func noPeers(_ int, d *fakeDev) { d.peers = false }

// TestProtocol runs short histories and compares what moved.
func TestProtocol(t *testing.T) {
	const one = "copy-in w host>fake:0"
	cases := []struct {
		name   string
		change func(int, *fakeDev)
		do     func(r *rig, w *Tensor)
		moved  string
		where  string
	}{
		{"nothing moves unasked", nil, func(r *rig, w *Tensor) { r.fill(w, 'a') }, "", "host"},
		{"lazy copy-in, then hits", nil, func(r *rig, w *Tensor) {
			r.fill(w, 'a')
			r.mustRead(w, 0, 'a')
			r.mustRead(w, 0, 'a')
		}, one + "; hit w fake:0>fake:0", "host, clean on fake:0"},
		{"a write moves the truth", nil, func(r *rig, w *Tensor) {
			r.fill(w, 'a')
			r.mustRead(w, 0, 'a')
			r.write(w, 0, 'b')
			r.mustRead(w, 0, 'b')
		}, one + "; hit w fake:0>fake:0", "fake:0"},
		{"a write needs no copy-in", nil, func(r *rig, w *Tensor) {
			r.fill(w, 'a')
			r.write(w, 1, 'b')
		}, "", "fake:1"},
		{"peer copy", nil, func(r *rig, w *Tensor) {
			r.write(w, 0, 'b')
			r.mustRead(w, 1, 'b')
			r.mustRead(w, 0, 'b')
		}, "peer w fake:0>fake:1; hit w fake:0>fake:0", "fake:0, clean on fake:1"},
		{"stale peers go back to the pool", nil, func(r *rig, w *Tensor) {
			r.write(w, 0, 'b')
			r.mustRead(w, 1, 'b')
			r.write(w, 0, 'c')
			r.mustRead(w, 1, 'c')
		}, "peer w fake:0>fake:1; drop w fake:1>; peer w fake:0>fake:1", "fake:0, clean on fake:1"},
		{"through the host", noPeers, func(r *rig, w *Tensor) {
			r.write(w, 0, 'b')
			r.mustRead(w, 1, 'b')
		}, "pull-back w fake:0>host; copy-in w host>fake:1", "fake:0, clean on fake:1, host"},
		{"other kinds go through the host", func(i int, d *fakeDev) { d.kind = d.id }, func(r *rig, w *Tensor) {
			r.write(w, 0, 'b')
			r.mustRead(w, 1, 'b')
		}, "pull-back w fake:0>host; copy-in w host>fake:1", "fake:0, clean on fake:1, host"},
		{"drop frees", nil, func(r *rig, w *Tensor) {
			r.fill(w, 'a')
			if err := r.m.Drop(w); err != nil {
				r.Fatal(err)
			}
			if n := hosts(r.devs[0]); n != 0 {
				r.Errorf("%d host buffers after the drop", n)
			}
			r.write(w, 0, 'b')
			if err := r.m.Drop(w); err != nil {
				r.Fatal(err)
			}
			if n := r.m.Memory(0).Used; n != 0 {
				r.Errorf("%d bytes held after the drop", n)
			}
		}, "drop w fake:0>", "nowhere"},
		{"new contents", nil, func(r *rig, w *Tensor) {
			r.fill(w, 'a')
			r.mustRead(w, 0, 'a')
			r.fill(w, 'b')
			r.mustRead(w, 0, 'b')
		}, one + "; drop w fake:0>; " + one, "host, clean on fake:0"},
		{"read-write on another device", nil, func(r *rig, w *Tensor) {
			r.write(w, 0, 'a')
			err := r.task(1, func(in [][]byte) error { in[0][0]++; return nil }, Need{w, 1, ReadWrite})
			if err != nil {
				r.Fatal(err)
			}
			if err := r.m.PullBack(context.Background(), Fetch, w); err != nil {
				r.Fatal(err)
			}
			err = r.m.View(w, func(b []byte) error {
				if string(b) != "baaaaaaa" {
					r.Errorf("holds %q", b)
				}
				return nil
			})
			if err != nil {
				r.Fatal(err)
			}
		}, "peer w fake:0>fake:1; drop w fake:0>; pull-back w fake:1>host", "fake:1, clean on host"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			change := c.change
			if change == nil {
				change = func(int, *fakeDev) {}
			}
			r := newRig(t, 2, ManagerOptions{}, change)
			w := r.declare("w", 8, device.Weight)
			c.do(r, w)
			if got := r.kinds(); got != c.moved {
				t.Errorf("moved %q, want %q", got, c.moved)
			}
			if got := w.Location(); got != c.where {
				t.Errorf("is at %q, want %q", got, c.where)
			}
		})
	}
}

func TestRecord(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
	k := Key{Net: "eval", Value: "x", Microbatch: 2, Replica: 1}
	x, err := r.m.Declare(k, shape.F32(2, 3), device.Activation)
	if err != nil {
		t.Fatal(err)
	}
	if x.Name() != "eval/x#2@1" || x.Key() != k || !x.Meta().Equal(shape.F32(2, 3)) || x.Usage() != device.Activation {
		t.Errorf("record is %v", x)
	}
	if again, err := r.m.Declare(k, shape.F32(2, 3), device.Activation); err != nil || again != x {
		t.Errorf("declared again: %v, %v", again, err)
	}
	if _, err := r.m.Declare(k, shape.F32(3, 2), device.Activation); !errors.Is(err, ErrMismatch) {
		t.Errorf("other shape: %v", err)
	}
	if _, err := r.m.Declare(Key{Value: "y"}, shape.Meta{}, device.Activation); !errors.Is(err, ErrMismatch) {
		t.Errorf("no type: %v", err)
	}
	if err := r.m.Fill(x, []byte{1}); !errors.Is(err, ErrMismatch) {
		t.Errorf("short fill: %v", err)
	}
	if err := r.m.Feed(x, r.hostBuffer(5, 'a')); !errors.Is(err, ErrMismatch) {
		t.Errorf("short feed: %v", err)
	}
	if v := x.Version(); v != 0 {
		t.Errorf("version %d before contents", v)
	}
}

func TestUndefined(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
	w := r.declare("w", 8, device.Weight)
	err := r.read(w, 0, 'a')
	if !errors.Is(err, ErrUndefined) || !strings.Contains(err.Error(), "w") {
		t.Errorf("read: %v", err)
	}
	if err := r.m.PullBack(short(t), Fetch, w); !errors.Is(err, ErrUndefined) {
		t.Errorf("pull-back: %v", err)
	}
	if err := r.m.Prefetch(short(t), []Need{{w, 0, Read}}); !errors.Is(err, ErrUndefined) {
		t.Errorf("prefetch: %v", err)
	}
	if _, err := r.m.Host(w); !errors.Is(err, ErrStale) {
		t.Errorf("host: %v", err)
	}
}

// TestHostIsNeverImplicit: a stale host read fails, a pull-back mends it, and
// a second one moves nothing.
func TestHostIsNeverImplicit(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
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

// TestTwice leases a tensor twice in one task.
func TestTwice(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{Budgets: []int64{8}})
	w := r.declare("w", 8, device.Weight)
	r.fill(w, 'a')
	var l Lease
	err := r.m.Acquire(short(t), r.compute[0], []Need{{w, 0, Read}, {w, 0, Read}, {w, 0, Write}}, &l)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Buffers) != 3 || l.Buffers[0] != l.Buffers[1] || l.Buffers[1] != l.Buffers[2] {
		t.Errorf("buffers %v", l.Buffers)
	}
	if err := r.m.Acquire(short(t), r.compute[0], nil, &l); !errors.Is(err, ErrLeased) {
		t.Errorf("a lease that is held was taken: %v", err)
	}
	if err := r.m.Drop(w); !errors.Is(err, ErrLeased) {
		t.Errorf("dropped while leased: %v", err)
	}
	if err := r.m.Release(&l, device.Event{}); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Release(&l, device.Event{}); !errors.Is(err, ErrNotHeld) {
		t.Errorf("released twice: %v", err)
	}
	if v := w.Version(); v != 2 {
		t.Errorf("version %d, want 2: one write", v)
	}
}

// TestAbandon: what was not queued did not happen.
func TestAbandon(t *testing.T) {
	r := newRig(t, 2, ManagerOptions{})
	w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
	r.write(w, 0, 'a')
	var l Lease
	if err := r.m.Acquire(short(t), r.compute[0], []Need{{w, 0, Write}, {v, 0, Write}}, &l); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Abandon(&l); err != nil {
		t.Fatal(err)
	}
	r.mustRead(w, 1, 'a')
	if got := v.Location(); got != "nowhere" {
		t.Errorf("v is at %s", got)
	}
	if b := r.m.Memory(0).Used; b != 8 {
		t.Errorf("%d bytes held, want w's 8", b)
	}
}

// TestFeedDoubleBuffers: new input is copied while the old one is computed on,
// to a second buffer; when the old one is free it is reused.
func TestFeedDoubleBuffers(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
	x := r.declare("x", 8, device.Input)
	hb := []device.HostBuffer{r.hostBuffer(8, 'a'), r.hostBuffer(8, 'b')}
	feed := func(i int) {
		if err := r.m.Feed(x, hb[i]); err != nil {
			t.Fatal(err)
		}
	}
	feed(0)
	if _, ok := r.m.FeedDone(x); ok {
		t.Error("the buffer was handed back before it was copied")
	}
	free := r.compute[0].(*fakeStream).hold()
	r.mustRead(x, 0, 'a')
	ev, ok := r.m.FeedDone(x)
	if !ok || ev.Wait(short(t)) != nil {
		t.Fatal("the copy-in waited for the task")
	}
	copy(hb[0].Bytes(), pattern(8, 'c'))
	feed(1)
	if err := r.m.Prefetch(short(t), []Need{{x, 0, Read}}); err != nil {
		t.Fatal(err)
	}
	if ev, ok := r.m.FeedDone(x); !ok || ev.Wait(short(t)) != nil {
		t.Fatal("the prefetch waited for the task that reads the old input")
	}
	if mem := r.m.Memory(0); mem.Used != 8 || mem.Pooled != 8 || mem.Pending != 0 {
		t.Errorf("memory is %+v", mem)
	}
	r.mustRead(x, 0, 'b')
	free()
	if err := r.compute[0].Record().Wait(short(t)); err != nil {
		t.Fatal(err)
	}
	feed(0)
	r.mustRead(x, 0, 'c')
	want := "copy-in x host>fake:0; drop x fake:0>; copy-in x host>fake:0; hit x fake:0>fake:0; copy-in x host>fake:0"
	if got := r.kinds(); got != want {
		t.Errorf("moved %q, want %q", got, want)
	}
}

// TestFeedGoesInOnce: a second device gets the batch from the first.
func TestFeedGoesInOnce(t *testing.T) {
	r := newRig(t, 2, ManagerOptions{})
	x := r.declare("x", 8, device.Input)
	if err := r.m.Feed(x, r.hostBuffer(8, 'a')); err != nil {
		t.Fatal(err)
	}
	r.mustRead(x, 0, 'a')
	r.mustRead(x, 1, 'a')
	if got, want := r.kinds(), "copy-in x host>fake:0; peer x fake:0>fake:1"; got != want {
		t.Errorf("moved %q, want %q", got, want)
	}
	if _, ok := r.m.FeedDone(x); !ok {
		t.Error("not handed back")
	}
	if got := x.Location(); got != "fake:0, clean on fake:1" {
		t.Errorf("after the hand-back x is at %s", got)
	}
}

func TestPrefetch(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{Budgets: []int64{12}})
	w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
	r.fill(w, 'a')
	r.fill(v, 'b')
	needs := []Need{{w, 0, Read}, {v, 0, Read}}
	if err := r.m.Prefetch(short(t), needs); err != nil {
		t.Fatal(err)
	}
	if got, want := r.kinds(), "copy-in w host>fake:0"; got != want {
		t.Errorf("prefetch moved %q, want %q: v has no room", got, want)
	}
	r.mustRead(w, 0, 'a')
	r.mustRead(v, 0, 'b')
	if got, want := r.kinds(), "hit w fake:0>fake:0; drop w fake:0>; copy-in v host>fake:0"; got != want {
		t.Errorf("moved %q, want %q", got, want)
	}
}

func TestCloseReportsLeases(t *testing.T) {
	d := newFake(0)
	m, err := New([]device.Device{d}, ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStream("compute")
	w, err := m.Declare(Key{Value: "w"}, shape.F32(2), device.Weight)
	if err != nil {
		t.Fatal(err)
	}
	var l Lease
	if err := m.Acquire(short(t), s, []Need{{w, 0, Write}}, &l); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); !errors.Is(err, ErrLeased) || !strings.Contains(err.Error(), "w on fake:0") {
		t.Errorf("close: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if err := m.Acquire(short(t), s, nil, new(Lease)); !errors.Is(err, ErrClosed) {
		t.Errorf("acquire after close: %v", err)
	}
	if err := m.Fill(w, make([]byte, 8)); !errors.Is(err, ErrClosed) {
		t.Errorf("fill after close: %v", err)
	}
	if err := errors.Join(s.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

func TestNewFails(t *testing.T) {
	d := newFake(0)
	boom := errors.New("boom")
	d.failNow["stream"] = boom
	if _, err := New([]device.Device{d}, ManagerOptions{}); !errors.Is(err, boom) {
		t.Errorf("no stream: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := New(nil, ManagerOptions{}); err == nil {
		t.Error("no devices were accepted")
	}
	if _, err := New([]device.Device{d}, ManagerOptions{Budgets: []int64{1, 2}}); err == nil {
		t.Error("too many budgets were accepted")
	}
}

// TestLedgerGolden runs three steps of training by hand and compares the table.
func TestLedgerGolden(t *testing.T) {
	r := newRig(t, 2, ManagerOptions{})
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
	if want := (Steady{2, flat(16), flat(32), flat(0)}); s != want {
		t.Errorf("steady state %+v, want %+v", s, want)
	}
	if c := r.m.Ledger().OfUsage(CopyIn, device.Weight); c.Bytes != 64 {
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
		"copyin":   l.Total(CopyIn).Bytes + l.Total(StreamIn).Bytes,
		"copypeer": l.Total(Peer).Bytes,
		"copyout":  l.Total(PullBack).Bytes + l.Total(Spill).Bytes,
	} {
		if moved[op] != want {
			t.Errorf("%s moved %d bytes, the ledger has %d", op, moved[op], want)
		}
	}
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
