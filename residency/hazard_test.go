package residency

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// The tests of hazards hold one stream back and check that others wait for it.

// TestWriterWaitsForPeerCopy: a writer waits for a peer copy of the old version.
func TestWriterWaitsForPeerCopy(t *testing.T) {
	r := newRig(t, 2, ManagerOptions{})
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

// TestWriterWaitsForCopyOut: a writer waits for a copy-out.
func TestWriterWaitsForCopyOut(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
	w := r.declare("w", 8, device.Weight)
	r.write(w, 0, 'a')
	free := r.devs[0].stream("copy-out").hold()
	got := make(chan error)
	go func() {
		got <- r.m.PullBack(context.Background(), Epoch, w)
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
		n := w.host.pins
		r.m.mu.Unlock()
		if n > 0 {
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

// TestHostMemoryOutlivesCopyOut: host memory outlives the copy-out to it.
func TestHostMemoryOutlivesCopyOut(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
	w := r.declare("w", 8, device.Weight)
	r.write(w, 0, 'a')
	free := r.devs[0].stream("copy-out").hold()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := r.m.PullBack(ctx, Epoch, w); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("pull-back held back: %v", err)
	}
	r.write(w, 0, 'b')
	if n := hosts(r.devs[0]); n != 1 {
		t.Errorf("%d host buffers while one is copied to", n)
	}
	free()
	if d, err := r.m.EnsureHost(short(t), Epoch, w); err != nil || d.Data().([]uint8)[0] != 'b' {
		t.Errorf("pulled %v, %v", d, err)
	}
	if n := hosts(r.devs[0]); n != 1 {
		t.Errorf("%d host buffers, the stale one was to be given back", n)
	}
}

// TestLastCopyOfFedBuffer: the last copy of a fed buffer stands for all.
func TestLastCopyOfFedBuffer(t *testing.T) {
	r := newRig(t, 2, ManagerOptions{}, noPeers)
	x := r.declare("x", 8, device.Input)
	if err := r.m.Feed(x, r.hostBuffer(8, 'a')); err != nil {
		t.Fatal(err)
	}
	free := r.devs[0].stream("copy-in").hold()
	r.mustRead(x, 0, 'a')
	r.mustRead(x, 1, 'a')
	ev, ok := r.m.FeedDone(x)
	time.Sleep(10 * time.Millisecond)
	if !ok || ev.Done() {
		t.Error("handed back while the first copy is held")
	}
	free()
	if err := ev.Wait(short(t)); err != nil {
		t.Error(err)
	}
}

// TestNewInputSparesReaders: new input spares what a task reads.
func TestNewInputSparesReaders(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
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

// TestViewOutlivesWrite: a view outlives a write.
func TestViewOutlivesWrite(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
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

// TestLeasedForWritingIsNotRead: what is leased for writing is not read.
func TestLeasedForWritingIsNotRead(t *testing.T) {
	r := newRig(t, 2, ManagerOptions{})
	w := r.declare("w", 8, device.Weight)
	r.write(w, 0, 'a')
	r.kinds()
	var l Lease
	if err := r.m.Acquire(short(t), r.compute[0], []Need{{w, 0, ReadWrite}}, &l); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := r.m.PullBack(soon, Fetch, w); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("pulled back: %v", err)
	}
	soon, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := r.m.Acquire(soon, r.compute[1], []Need{{w, 1, Read}}, new(Lease)); !errors.Is(err, context.DeadlineExceeded) {
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
	r := newRig(t, 1, ManagerOptions{})
	x := r.declare("x", 8, device.Input)
	r.fill(x, 'a')
	var l Lease
	if err := r.m.Acquire(short(t), r.compute[0], []Need{{x, 0, Read}}, &l); err != nil {
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
	r := newRig(t, 1, ManagerOptions{})
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

// hosts is how many host buffers of d are not freed.
func hosts(d *fakeDev) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hosts
}
