package residency

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/hostmem"
	"github.com/berth-ml/berth/residency/ledger"
)

func TestFillWith(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	x := r.declare("x", 4, device.Weight)
	if err := r.m.FillWith(x, func(dst []byte) error { copy(dst, []byte{0, 7, 0, 0}); return nil }); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("no such file")
	if err := r.m.FillWith(x, func(dst []byte) error { dst[0] = 9; return boom }); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	err := r.m.View(x, func(b []byte) error {
		if !bytes.Equal(b, []byte{0, 7, 0, 0}) {
			t.Errorf("contents are %v", b)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFeedDoubleBuffers: new input is copied while the old one is computed on,
// to a second buffer; when the old one is free it is reused.
func TestFeedDoubleBuffers(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
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
	if n := r.devs[0].Stats().Live; n != 8 {
		t.Errorf("%d bytes are live, want the new input's 8", n)
	}
	r.mustRead(x, 0, 'b')
	free()
	if err := r.compute[0].Record().Wait(short(t)); err != nil {
		t.Fatal(err)
	}
	feed(0)
	r.mustRead(x, 0, 'c')
	want := "copy-in x host>fake:0; drop x fake:0>; copy-in x host>fake:0; hit x fake:0>fake:0; drop x fake:0>; copy-in x host>fake:0"
	if got := r.kinds(); got != want {
		t.Errorf("moved %q, want %q", got, want)
	}
}

// TestFeedGoesInOnce: a second device gets the batch from the first.
func TestFeedGoesInOnce(t *testing.T) {
	r := newRig(t, 2, rigOptions{})
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

// TestLastCopyOfFedBuffer: the last copy of a fed buffer stands for all.
func TestLastCopyOfFedBuffer(t *testing.T) {
	r := newRig(t, 2, rigOptions{}, noPeers)
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
		d, err := r.onHost(short(t), ledger.Checkpoint, w)
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

// TestPullIntoOwnMemory: a pull-back to the caller's own memory takes no other memory, and moves nothing where the host has
// the bytes.
func TestPullIntoOwnMemory(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	dst := r.hostBuffer(8, 'x')
	if err := r.m.PullInto(short(t), ledger.Fetch, w, dst); !errors.Is(err, ErrUndefined) {
		t.Errorf("without contents: %v", err)
	}
	r.write(w, 0, 'b')
	r.write(w, 0, 'c')
	before := hosts(r.devs[0])
	if err := r.m.PullInto(short(t), ledger.Fetch, w, dst); err != nil || string(dst.Bytes()) != "cccccccc" {
		t.Errorf("pulled %q: %v", dst.Bytes(), err)
	}
	if n := hosts(r.devs[0]); n != before || r.m.HostMemory().Used != 0 {
		t.Errorf("%d host buffers, %d before", n, before)
	}
	if err := r.m.PullBack(short(t), ledger.Epoch, w); err != nil {
		t.Fatal(err)
	}
	other := r.hostBuffer(8, 'x')
	if err := r.m.PullInto(short(t), ledger.Fetch, w, other); err != nil || string(other.Bytes()) != "cccccccc" {
		t.Errorf("pulled %q from the host: %v", other.Bytes(), err)
	}
	if c := r.m.Ledger().OfReason(ledger.Fetch); c != (ledger.Count{Count: 1, Bytes: 8}) {
		t.Errorf("fetched %v", c)
	}
	if err := r.m.PullInto(short(t), ledger.Fetch, w, r.hostBuffer(4, 'x')); !errors.Is(err, ErrMismatch) {
		t.Errorf("to memory of another size: %v", err)
	}
	if err := r.m.PullInto(short(t), "whim", w, dst); err == nil {
		t.Error("an unknown reason was accepted")
	}
}

// TestPeek: what a task has written anew that failed is shown, where Salvage refuses it.
func TestPeek(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	broken := errors.New("broken")
	task := func(err error) {
		var l Lease
		if err := r.m.Acquire(short(t), r.compute[0], []Need{{w, 0, Write}}, 0, &l); err != nil {
			t.Fatal(err)
		}
		x := &fakeExe{f: func(_, out [][]byte) error { copy(out[0], "abcdefgh"); return err }}
		done, e := r.compute[0].Launch(x, nil, append([]device.Buffer(nil), l.Buffers...), l.Scratch)
		if err := errors.Join(e, r.m.Release(&l, done)); err != nil {
			t.Fatal(err)
		}
	}
	show := func(b []byte) error {
		if string(b) != "abcdefgh" {
			t.Errorf("shown %q", b)
		}
		return nil
	}
	task(nil)
	if err := errors.Join(r.m.Peek(short(t), w, show), r.m.Salvage(short(t), w, show)); err != nil {
		t.Error(err)
	}
	if err := r.m.Drop(w); err != nil {
		t.Fatal(err)
	}
	task(broken)
	if err := r.m.Peek(short(t), w, show); err != nil {
		t.Error(err)
	}
	if err := r.m.Salvage(short(t), w, show); !errors.Is(err, broken) {
		t.Errorf("salvaged: %v", err)
	}
	if c := r.m.Ledger().OfReason(ledger.Debug); c.Bytes < 24 {
		t.Errorf("the ledger has %v", c)
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
	d, err := r.onHost(short(t), ledger.Epoch, w)
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
	if _, err := r.onHost(short(t), ledger.Fetch, w); err != nil {
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

// TestHostMemoryOutlivesCopyOut: host memory outlives the copy-out to it.
func TestHostMemoryOutlivesCopyOut(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	r.write(w, 0, 'a')
	free := r.devs[0].stream("copy-out").hold()
	ctx, cancel := context.WithCancel(short(t))
	defer cancel()
	pulled := make(chan error, 1)
	go func() { pulled <- r.m.PullBack(ctx, ledger.Epoch, w) }()
	for w.Location() != "fake:0, clean on host" { // until it is queued
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-pulled; !errors.Is(err, context.Canceled) {
		t.Fatalf("pull-back held back: %v", err)
	}
	r.write(w, 0, 'b')
	if n := hosts(r.devs[0]); n != 1 {
		t.Errorf("%d host buffers while one is copied to", n)
	}
	free()
	if d, err := r.onHost(short(t), ledger.Epoch, w); err != nil || d[0] != 'b' {
		t.Errorf("pulled %v, %v", d, err)
	}
	if n := hosts(r.devs[0]); n != 1 {
		t.Errorf("%d host buffers, the stale one was to be given back", n)
	}
}

// hosts is how many host buffers of d are not freed.
func hosts(d *fakeDev) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hosts
}

// TestHostBound: bytes beyond the bound on host memory are in the file, and each
// tensor keeps its contents on its way to the device and back.
func TestHostBound(t *testing.T) {
	const n = 6
	r := newRig(t, 1, rigOptions{manager: ManagerOptions{HostBytes: 20, SpillDir: t.TempDir()}, tenant: TenantOptions{HostBytes: 21}}, capacity(24))
	if err := r.m.HoldHost(4); err != nil {
		t.Fatal(err)
	}
	var ts []*Tensor
	for i := range n {
		x := r.declare(fmt.Sprint("w", i), 8, device.Weight)
		r.fill(x, byte(10*i))
		ts = append(ts, x)
	}
	if m := r.m.HostMemory(); m.Bound != 20 || m.Used != 20 || m.Peak != 20 || m.InFile == 0 || m.Spilled == 0 {
		t.Errorf("host memory is %+v: two tensors fit in with the bytes held", m)
	}
	size := r.m.HostMemory().Spilled
	for round := range 5 {
		for i, x := range ts { // the device has room for three
			r.mustRead(x, 0, byte(10*i+round))
			r.write(x, 0, byte(10*i+round+1))
		}
		if m := r.m.HostMemory(); m.Used > 20 || m.Spilled != size {
			t.Errorf("round %d: host memory is %+v", round, m)
		}
	}
	for i, x := range ts {
		if d, err := r.onHost(short(t), ledger.Epoch, x); err != nil || d[0] != byte(10*i+5) {
			t.Errorf("%s is %v, %v", x.Name(), d, err)
		}
	}
	r.m.ReleaseHost(4)
	if err := r.m.HoldHost(21); !errors.Is(err, ErrHostMemory) {
		t.Errorf("more is held than the bound: %v", err)
	}
}

// TestSpillFolder: a folder that takes no file is an error of New.
func TestSpillFolder(t *testing.T) {
	d := newFake(0)
	_, err := New([]device.Device{d}, ManagerOptions{HostBytes: 1, SpillDir: filepath.Join(t.TempDir(), "none")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestNoSpillFiles: without spill files, bytes beyond the bound are refused.
func TestNoSpillFiles(t *testing.T) {
	r := newRig(t, 1, rigOptions{manager: ManagerOptions{HostBytes: 12, SpillDir: t.TempDir()}})
	if err := r.m.host.Close(); err != nil {
		t.Fatal(err)
	}
	r.m.host = hostmem.New(hostmem.Options{Staging: DefaultStaging, Bound: 12}) // as on a system that has none
	a, b := r.declare("a", 8, device.Weight), r.declare("b", 8, device.Weight)
	r.fill(a, 'a')
	if err := r.m.Fill(b, pattern(8, 'b')); !errors.Is(err, ErrHostMemory) {
		t.Errorf("got %v", err)
	}
	r.mustRead(a, 0, 'a')
}

// Once a step has spilled, the next ones map no host memory.
func TestSpillsReuseHostMemory(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(24))
	var ts []*Tensor
	for i := range 6 {
		ts = append(ts, r.declare(fmt.Sprint("t", i), 8, device.Weight))
	}
	step := func() {
		for i, x := range ts {
			r.write(x, 0, byte('a'+i))
		}
	}
	for range 3 {
		step()
	}
	spilled, used := r.m.Ledger().Total(ledger.Spill).Bytes, r.m.HostMemory().Used
	r.devs[0].failNow["host"] = errors.New("host memory was mapped")
	for range 5 {
		step()
	}
	if r.m.Ledger().Total(ledger.Spill).Bytes == spilled {
		t.Error("nothing was spilled")
	}
	if now := r.m.HostMemory().Used; now != used {
		t.Errorf("%d bytes of host memory are used, %d before", now, used)
	}
	delete(r.devs[0].failNow, "host")
	for i, x := range ts {
		r.mustRead(x, 0, byte('a'+i))
	}
	conserved(t, r)
}

// Memory kept for spills gives way where host memory is bounded.
func TestMemoryForSpillsGivesWay(t *testing.T) {
	r := newRig(t, 1, rigOptions{manager: ManagerOptions{HostBytes: 20, SpillDir: t.TempDir()}}, capacity(8))
	x, y := r.declare("x", 8, device.Weight), r.declare("y", 8, device.Weight)
	for range 3 {
		r.write(x, 0, 'a')
		r.write(y, 0, 'b')
	}
	if err := r.m.Drop(x); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Drop(y); err != nil {
		t.Fatal(err)
	}
	if errs := r.m.Settle(); errs != nil {
		t.Fatal(errs)
	}
	z := r.declare("z", 20, device.Weight)
	r.fill(z, 'c')
	if h := r.m.HostMemory(); h.Used != 20 || h.Spilled != 0 {
		t.Errorf("%d bytes of host memory are used and %d in the file, expected 20 and none", h.Used, h.Spilled)
	}
}

// Memory of spills is freed once no step takes it any more.
func TestMemoryForSpillsIsFreedInTheEnd(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(8))
	x, y := r.declare("x", 8, device.Weight), r.declare("y", 8, device.Weight)
	for range 3 {
		r.write(x, 0, 'a')
		r.write(y, 0, 'b')
	}
	if h := r.m.HostMemory(); h.Used != 16 || h.Idle != 8 {
		t.Errorf("while tensors spill: %+v", h)
	}
	if err := r.m.Drop(x); err != nil {
		t.Fatal(err)
	}
	for range hostmem.LeastKept {
		r.mustRead(y, 0, 'b')
	}
	r.m.Settle()
	r.mustRead(y, 0, 'b')
	if h := r.m.HostMemory(); h.Used != 0 || h.Idle != 0 {
		t.Errorf("long after: %+v", h)
	}
}

// Memory that a spill got while an earlier copy from it is queued stays until that has
// ended, also if the spill cannot be queued.
func TestFailedSpillKeepsItsMemory(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(16))
	w, v, x := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight), r.declare("x", 8, device.Weight)
	r.write(w, 0, 'w')
	r.write(v, 0, 'v')
	r.write(x, 0, 'x') // spills w
	letGo := r.devs[0].stream("copy-in").hold()
	r.mustRead(w, 0, 'w') // spills v
	r.write(w, 0, 'n')    // the next spill gets the memory of w
	if err := r.devs[0].stream("copy-out").Record().Wait(short(t)); err != nil {
		t.Fatal(err)
	}
	r.devs[0].mu.Lock()
	r.devs[0].failNow["copyout"] = errBoom
	r.devs[0].mu.Unlock()
	if err := r.read(v, 0, 'v'); !errors.Is(err, errBoom) { // spills x
		t.Errorf("a spill that cannot be queued: %v", err)
	}
	letGo()
	r.mustRead(v, 0, 'v')
	r.mustRead(x, 0, 'x')
}
