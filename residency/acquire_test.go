package residency

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// TestProtocol runs short histories and compares the transfers.
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
			if n := r.devs[0].Stats().Live; n != 0 {
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
			if err := r.m.PullBack(context.Background(), ledger.Fetch, w); err != nil {
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
			r := newRig(t, 2, rigOptions{}, change)
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

func TestUndefined(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	err := r.read(w, 0, 'a')
	if !errors.Is(err, ErrUndefined) || !strings.Contains(err.Error(), "w") {
		t.Errorf("read: %v", err)
	}
	if err := r.m.PullBack(short(t), ledger.Fetch, w); !errors.Is(err, ErrUndefined) {
		t.Errorf("pull-back: %v", err)
	}
	if err := r.m.Prefetch(short(t), []Need{{w, 0, Read}}); !errors.Is(err, ErrUndefined) {
		t.Errorf("prefetch: %v", err)
	}
	if _, err := r.m.Host(w); !errors.Is(err, ErrStale) {
		t.Errorf("host: %v", err)
	}
}

// TestTwice leases a tensor twice in one task.
func TestTwice(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(8))
	w := r.declare("w", 8, device.Weight)
	r.fill(w, 'a')
	var l Lease
	err := r.m.Acquire(short(t), r.compute[0], []Need{{w, 0, Read}, {w, 0, Read}, {w, 0, Write}}, 0, &l)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Buffers) != 3 || l.Buffers[0] != l.Buffers[1] || l.Buffers[1] != l.Buffers[2] {
		t.Errorf("buffers %v", l.Buffers)
	}
	if err := r.m.Acquire(short(t), r.compute[0], nil, 0, &l); !errors.Is(err, ErrLeased) {
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

// TestFailures scripts one fault each and checks that it is told, that no lease
// stays, and that all is freed.
func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	for _, op := range []string{"copyin", "copypeer", "copyout", "alloc", "host", "launch", "wait"} {
		t.Run("call/"+op, func(t *testing.T) {
			r := newRig(t, 2, rigOptions{})
			w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
			r.fill(w, 'a')
			r.write(v, 0, 'v')
			free := r.devs[0].stream("copy-in").hold()
			for _, d := range r.devs {
				d.mu.Lock()
				d.failNow[op] = boom
				d.mu.Unlock()
			}
			err := errors.Join(r.read(w, 0, 'a'), r.read(v, 1, 'v'), r.m.PullBack(short(t), ledger.Fetch, v))
			if !errors.Is(err, boom) {
				t.Fatalf("error is %v", err)
			}
			if n := len(r.m.leases); n != 0 {
				t.Errorf("%d leases stay", n)
			}
			free()
			for _, d := range r.devs {
				d.mu.Lock()
				clear(d.failNow)
				d.mu.Unlock()
			}
			r.mustRead(w, 0, 'a')
			r.mustRead(v, 1, 'v')
		})
	}
	for _, op := range []string{"copyin", "copypeer", "copyout", "launch"} {
		t.Run("later/"+op, func(t *testing.T) {
			r := newRig(t, 2, rigOptions{})
			w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
			r.fill(w, 'a')
			r.write(v, 0, 'v')
			if err := r.compute[0].Record().Wait(short(t)); err != nil {
				t.Fatal(err)
			}
			for _, d := range r.devs {
				d.mu.Lock()
				if d.fail[op] = boom; op != "launch" { // it is repeated
					d.failAll[op] = boom
				}
				d.mu.Unlock()
			}
			nop := func([][]byte) error { return nil }
			err := errors.Join(r.task(0, nop, Need{w, 0, ReadWrite}), r.task(1, nop, Need{v, 1, Read}), r.m.PullBack(short(t), ledger.Fetch, v))
			for _, s := range r.compute {
				err = errors.Join(err, s.Record().Wait(short(t)))
			}
			if !errors.Is(err, boom) {
				t.Fatalf("error is %v", err)
			}
			if op == "copyin" || op == "launch" {
				if err := r.task(0, nop, Need{w, 0, Read}); !errors.Is(err, boom) || !strings.Contains(err.Error(), "w on fake:0") {
					t.Errorf("reading what failed: %v", err)
				}
			}
			if op == "copyout" {
				if _, err := r.m.Host(v); !errors.Is(err, ErrStale) {
					t.Errorf("host read of a failed pull-back: %v", err)
				}
			}
			if n := len(r.m.leases); n != 0 {
				t.Errorf("%d leases stay", n)
			}
		})
	}
}

// TestWriterWaitsForPeerCopy: a writer waits for a peer copy of the old version.
func TestWriterWaitsForPeerCopy(t *testing.T) {
	r := newRig(t, 2, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	r.write(w, 0, 'a')
	free := r.devs[1].stream("peer").hold()
	r.mustRead(w, 1, 'a')
	r.write(w, 0, 'b')
	if r.compute[0].Record().Done() {
		t.Error("the writer did not wait")
	}
	free()
	r.mustRead(w, 1, 'b')
}

// TestReaderWaitsForTheCopyFirst: a reader's stream waits for the end of a copy before it
// looks at the launch that made its source, which ends sooner. It so wakes once.
func TestReaderWaitsForTheCopyFirst(t *testing.T) {
	r := newRig(t, 2, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	maker, reader := r.compute[0].(*fakeStream), r.compute[1].(*fakeStream)
	free := []func(){maker.hold(), reader.hold()}
	r.write(w, 0, 'a')
	r.mustRead(w, 1, 'a')
	for _, op := range reader.ops {
		if op.event == (device.Event{}) {
			continue
		}
		if op.event.Queue == device.Queue(maker) {
			t.Errorf("it waits for the launch first: %v", reader.ops)
		}
		break
	}
	for _, f := range free {
		f()
	}
}

// TestWriterWaitsForCopyOut: a writer waits for a copy-out.
func TestWriterWaitsForCopyOut(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	r.write(w, 0, 'a')
	free := r.devs[0].stream("copy-out").hold()
	got := make(chan error)
	go func() {
		got <- r.m.PullBack(context.Background(), ledger.Epoch, w)
	}()
	for w.Location() != "fake:0, clean on host" {
		time.Sleep(time.Millisecond)
	}
	pulled := make(chan string)
	held := make(chan struct{})
	viewed := make(chan struct{})
	go func() {
		defer close(viewed)
		err := r.m.View(w, func(b []byte) error { close(held); pulled <- string(b); return nil })
		if err != nil {
			t.Error(err)
		}
	}()
	for {
		r.m.mu.Lock()
		n := w.host.Pins()
		r.m.mu.Unlock()
		if n > 1 { // of the pull-back, and of View
			break
		}
		time.Sleep(time.Millisecond)
	}
	r.write(w, 0, 'b')
	if r.compute[0].Record().Done() {
		t.Error("the writer did not wait")
	}
	free()
	if err := <-got; err != nil {
		t.Error(err)
	}
	<-held
	if s := <-pulled; s != "aaaaaaaa" {
		t.Errorf("pulled %q", s)
	}
	<-viewed // its end frees the host memory
}

// TestNewInputSparesReaders: new input does not overwrite the input of a task that
// runs.
func TestNewInputSparesReaders(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	x := r.declare("x", 8, device.Input)
	r.fill(x, 'a')
	second, err := r.devs[0].NewStream("second")
	if err != nil {
		t.Fatal(err)
	}
	free := r.compute[0].(*fakeStream).hold()
	r.mustRead(x, 0, 'a')
	if err := r.m.Feed(x, r.hostBuffer(8, 'b')); err != nil {
		t.Fatal(err)
	}
	r.compute = append(r.compute, r.compute[0])
	r.compute[0] = second
	r.mustRead(x, 0, 'b')
	if err := second.Record().Wait(short(t)); err != nil {
		t.Error(err)
	}
	free()
}

// TestLeasedForWritingIsNotRead: a tensor that is leased for writing is not read.
func TestLeasedForWritingIsNotRead(t *testing.T) {
	r := newRig(t, 2, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	r.write(w, 0, 'a')
	r.kinds()
	var l Lease
	if err := r.m.Acquire(short(t), r.compute[0], []Need{{w, 0, ReadWrite}}, 0, &l); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := r.m.PullBack(soon, ledger.Fetch, w); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("pulled back: %v", err)
	}
	soon, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := r.m.Acquire(soon, r.compute[1], []Need{{w, 1, Read}}, 0, new(Lease)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("acquired: %v", err)
	}
	if err := r.m.Prefetch(short(t), []Need{{w, 1, Read}}); err != nil {
		t.Error(err)
	}
	if err := r.m.Fill(w, pattern(8, 'x')); !errors.Is(err, ErrLeased) {
		t.Errorf("filled: %v", err)
	}
	if got := r.kinds(); got != "hit w fake:0>fake:0" {
		t.Errorf("moved %q", got)
	}
	if err := r.m.Release(&l, device.Event{}); err != nil {
		t.Fatal(err)
	}
	r.mustRead(w, 1, 'a')
}

// TestNewInputSparesLease: new input spares a lease of the old.
func TestNewInputSparesLease(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	x := r.declare("x", 8, device.Input)
	r.fill(x, 'a')
	var l Lease
	if err := r.m.Acquire(short(t), r.compute[0], []Need{{x, 0, Read}}, 0, &l); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Feed(x, r.hostBuffer(8, 'b')); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Prefetch(short(t), []Need{{x, 0, Read}}); err != nil {
		t.Fatal(err)
	}
	if err := r.read(x, 0, 'b'); !errors.Is(err, ErrLeased) {
		t.Errorf("the buffer of a lease was taken: %v", err)
	}
	if err := r.m.Release(&l, device.Event{}); err != nil {
		t.Fatal(err)
	}
	r.mustRead(x, 0, 'b')
}

// TestReaderWaitsForCopyIn: a reader waits for its copy-in, not the host.
func TestReaderWaitsForCopyIn(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	r.fill(w, 'a')
	free := r.devs[0].stream("copy-in").hold()
	r.mustRead(w, 0, 'a')
	if r.compute[0].Record().Done() {
		t.Error("the reader did not wait")
	}
	r.fill(w, 'b') // the bytes in flight must survive
	free()
	r.mustRead(w, 0, 'b')
}
