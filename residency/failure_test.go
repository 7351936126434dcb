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

var errBoom = errors.New("boom")

// late makes the next operation of a kind fail when it runs.
func (d *fakeDev) late(op string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail[op] = errBoom
}

// fails makes all operations of a kind fail when they run, until the result is called.
func (d *fakeDev) fails(op string) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failAll[op] = errBoom
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.failAll, op)
	}
}

// The failure of a task fails the copies of what it was to write, and no others,
// though all share a stream.
func TestFailedTaskFailsItsOwnCopiesAlone(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
	r.write(w, 0, 'w')
	r.write(v, 0, 'v')
	s := r.m.NewStaging(w, v)
	defer s.Close()
	letGo := r.compute[0].(*fakeStream).hold()
	if err := r.task(0, func([][]byte) error { return errBoom }, Need{w, 0, ReadWrite}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := s.Queue(short(t), ledger.Epoch, i); err != nil {
			t.Fatal(err)
		}
	}
	letGo()
	if err := s.Wait(short(t), 0); !errors.Is(err, errBoom) {
		t.Errorf("the copy of what failed: %v", err)
	}
	if err := s.Wait(short(t), 1); err != nil || string(s.Bytes(1)) != "vvvvvvvv" {
		t.Errorf("the copy of another: %q, %v", s.Bytes(1), err)
	}
}

// A copy to the host that fails again and again does not fail later ones.
func TestCopiesToTheHostGoOnAfterAFailure(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
	r.write(w, 0, 'w')
	r.write(v, 0, 'v')
	end := r.devs[0].fails("copyout")
	if err := r.m.PullBack(short(t), ledger.Epoch, w); !errors.Is(err, errBoom) {
		t.Fatalf("the copy that fails: %v", err)
	}
	end()
	for x, want := range map[*Tensor]string{v: "vvvvvvvv", w: "wwwwwwww"} {
		got := ""
		err := r.m.PullBack(short(t), ledger.Epoch, x)
		if err == nil {
			err = r.m.View(x, func(b []byte) error { got = string(b); return nil })
		}
		if err != nil || got != want {
			t.Errorf("%s afterwards: %q, %v", x.Name(), got, err)
		}
	}
}

// A copy to a device that fails is repeated before a task uses it, and before its source
// is overwritten, on the host or on another device.
func TestFailedCopyToADeviceIsRepeated(t *testing.T) {
	for _, op := range []string{"copyin", "copypeer"} {
		r := newRig(t, 2, rigOptions{})
		w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
		stream, on := "copy-in", 0
		if op == "copypeer" {
			r.write(w, 0, 'w')
			r.write(v, 0, 'v')
			stream, on = "peer", 1
		} else {
			r.fill(w, 'w')
			r.fill(v, 'v')
		}
		letGo := r.devs[on].stream(stream).hold()
		r.devs[on].late(op)
		r.mustRead(w, on, 'w')
		r.mustRead(v, on, 'v')
		r.write(w, 0, 'n')
		r.fill(v, 'n')
		letGo()
		r.mustRead(w, on, 'n')
		r.mustRead(v, on, 'n')
		for _, s := range r.compute {
			if err := s.Record().Wait(short(t)); err != nil {
				t.Errorf("%s: the tasks: %v", op, err)
			}
		}
		if errs := r.m.Settle(); errs != nil {
			t.Errorf("%s: the copies: %v", op, errs)
		}
		if told := r.m.Failures(); len(told) != 1 || !errors.Is(told[0], errBoom) {
			t.Errorf("%s: it tells %v", op, told)
		}
	}
}

// A copy to a device that failed for good is taken again from the truth.
func TestFailedCopiesAreTakenAgain(t *testing.T) {
	for _, op := range []string{"copyin", "copypeer"} {
		r := newRig(t, 2, rigOptions{})
		w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
		on := 0
		if op == "copypeer" {
			r.write(w, 0, 'w')
			r.write(v, 0, 'v')
			on = 1
		} else {
			r.fill(w, 'w')
			r.fill(v, 'v')
		}
		end := r.devs[on].fails(op)
		if err := r.m.Prefetch(short(t), []Need{{w, on, Read}, {v, on, Read}}); err != nil {
			t.Fatal(err)
		}
		if errs := r.m.Settle(); len(errs) == 0 {
			t.Fatalf("%s: nothing failed", op)
		}
		end()
		r.mustRead(w, on, 'w')
		r.mustRead(v, on, 'v')
		if err := r.compute[on].Record().Wait(short(t)); err != nil {
			t.Errorf("%s: the tasks: %v", op, err)
		}
		if told := r.m.Failures(); len(told) != 3 || !errors.Is(told[0], errBoom) {
			t.Errorf("%s: it tells %v", op, told)
		}
		if told := r.m.Failures(); told != nil {
			t.Errorf("%s: it tells again: %v", op, told)
		}
	}
}

// Moving in keeps the host's bytes until they have arrived.
func TestMoveInKeepsBytesUntilTheyArrive(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w, v, u := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight), r.declare("u", 8, device.Weight)
	for x, b := range map[*Tensor]byte{w: 'w', v: 'v', u: 'u'} {
		r.fill(x, b)
	}
	letGo := r.devs[0].stream("copy-in").hold()
	end := r.devs[0].fails("copyin")
	if err := r.m.MoveIn(short(t), []Need{{w, 0, Read}, {v, 0, Read}, {u, 0, Read}}); err != nil {
		t.Fatal(err)
	}
	letGo()
	if errs := r.m.Settle(); len(errs) == 0 {
		t.Fatal("nothing failed")
	}
	end()
	r.mustRead(w, 0, 'w')
	if err := r.compute[0].Record().Wait(short(t)); err != nil {
		t.Error(err)
	}
	got := ""
	err := r.m.PullBack(short(t), ledger.Epoch, v)
	if err == nil {
		err = r.m.View(v, func(b []byte) error { got = string(b); return nil })
	}
	if err != nil || got != "vvvvvvvv" {
		t.Errorf("v: %q, %v", got, err)
	}
	r.fill(u, 'x') // what was there before does not come back
	r.mustRead(u, 0, 'x')
}

// A copy that fails for good is the failure of the task that waits for it already, also
// when nothing is left to take it from.
func TestCopyThatFailsUnderItsTask(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	r.fill(w, 'w')
	letGo := r.devs[0].stream("copy-in").hold()
	r.devs[0].fails("copyin")
	if err := r.task(0, func([][]byte) error { return nil }, Need{w, 0, Read}); err != nil {
		t.Fatal(err)
	}
	letGo()
	if err := r.compute[0].Record().Wait(short(t)); !errors.Is(err, errBoom) {
		t.Errorf("the task: %v", err)
	}
}

// A tensor whose writer failed moves in and out as before, and takes no other along.
// The bytes from before the failure can be salvaged wherever they are.
func TestFailedContentsSpillAlone(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(16))
	w, v, x := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight), r.declare("x", 8, device.Weight)
	r.write(w, 0, 'w')
	r.write(v, 0, 'v')
	letGo := r.compute[0].(*fakeStream).hold()
	touch := func([][]byte) error { return nil }
	boom := func([][]byte) error { return errBoom }
	for i, step := range []struct {
		f func([][]byte) error
		n Need
	}{{boom, Need{x, 0, Write}}, {touch, Need{w, 0, ReadWrite}}, {touch, Need{v, 0, Read}}, {touch, Need{x, 0, Write}}, {touch, Need{w, 0, ReadWrite}}, {touch, Need{v, 0, Read}}, {touch, Need{x, 0, Write}}} {
		if err := r.task(0, step.f, step.n); err != nil {
			t.Fatalf("task %d: %v", i, err)
		}
	}
	letGo()
	if err := r.compute[0].Record().Wait(short(t)); !errors.Is(err, errBoom) {
		t.Fatalf("the tasks: %v", err)
	}
	if errs := r.m.Settle(); errs != nil {
		t.Errorf("copies failed: %v", errs)
	}
	second := r.stream(0)
	r.compute[0], r.compute[1] = second, r.compute[0]
	r.mustRead(v, 0, 'v')
	if err := second.Record().Wait(short(t)); err != nil {
		t.Errorf("a task of another network: %v", err)
	}
	if err := r.read(w, 0, 'w'); !errors.Is(err, errBoom) {
		t.Errorf("the task that reads what failed: %v", err)
	}
	for x, want := range map[*Tensor]string{w: "wwwwwwww", v: "vvvvvvvv"} {
		got := ""
		if err := r.m.Salvage(short(t), x, func(b []byte) error { got = string(b); return nil }); err != nil || got != want {
			t.Errorf("%s: salvaged %q, %v", x.Name(), got, err)
		}
	}
	if err := r.m.Lost(); err != nil {
		t.Error(err)
	}
}

// A copy to the host that fails is repeated, from the contents that it was to copy,
// before these are overwritten or their memory is: of a spill, a pull-back, staging, and
// of copies that were queued behind it.
func TestFailedCopyToTheHostIsRepeated(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(32))
	ts := map[*Tensor]byte{}
	for name, b := range map[string]byte{"spilled": 's', "also": 'a', "pulled": 'p', "staged": 'g'} {
		x := r.declare(name, 8, device.Weight)
		r.write(x, 0, b)
		ts[x] = b
	}
	named := func(name string) *Tensor {
		for x := range ts {
			if x.Name() == name {
				return x
			}
		}
		panic("BUG: no tensor " + name)
	}
	s := r.m.NewStaging(named("staged"))
	defer s.Close()
	letGo := r.devs[0].stream("copy-out").hold()
	r.devs[0].late("copyout")
	pulling := make(chan error, 1)
	go func() { pulling <- r.m.PullBack(context.Background(), ledger.Epoch, named("pulled")) }()
	for named("pulled").Location() == "fake:0" { // until it is queued
		time.Sleep(time.Millisecond)
	}
	if err := s.Queue(short(t), ledger.Epoch, 0); err != nil {
		t.Fatal(err)
	}
	r.write(named("pulled"), 0, 'n')
	r.write(named("staged"), 0, 'n')
	x := r.declare("x", 16, device.Weight)
	r.write(x, 0, 'x') // in the memory of two
	letGo()
	if err := <-pulling; err != nil {
		t.Errorf("the pull-back: %v", err)
	}
	if err := s.Wait(short(t), 0); err != nil || string(s.Bytes(0)) != "gggggggg" {
		t.Errorf("staged %q, %v", s.Bytes(0), err)
	}
	r.mustRead(x, 0, 'x')
	for _, name := range []string{"spilled", "also"} {
		r.mustRead(named(name), 0, ts[named(name)])
	}
	for _, name := range []string{"pulled", "staged"} {
		r.mustRead(named(name), 0, 'n')
	}
	if err := r.compute[0].Record().Wait(short(t)); err != nil {
		t.Errorf("the tasks: %v", err)
	}
	if errs := r.m.Settle(); errs != nil {
		t.Errorf("the copies: %v", errs)
	}
	if err := r.m.Lost(); err != nil {
		t.Error(err)
	}
	if told := r.m.Failures(); len(told) != 1 || !errors.Is(told[0], errBoom) {
		t.Errorf("it tells %v", told)
	}
}

// A spill that fails again and again loses its contents: whoever needs them is told their
// name, what was being done, and the cause. Others are as they were.
func TestFailedSpillNamesWhatIsLost(t *testing.T) {
	for name, late := range map[string]bool{"known before": false, "known after": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, rigOptions{}, capacity(16))
			w, v, x := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight), r.declare("x", 8, device.Weight)
			r.write(w, 0, 'w')
			r.write(v, 0, 'v')
			if err := r.m.PullBack(short(t), ledger.Epoch, v); err != nil { // to evict it queues no copy
				t.Fatal(err)
			}
			letGo := r.devs[0].stream("copy-out").hold()
			end := r.devs[0].fails("copyout")
			if err := r.task(0, func([][]byte) error { return nil }, Need{v, 0, Read}, Need{x, 0, Write}); err != nil { // evicts w
				t.Fatal(err)
			}
			if !late {
				letGo()
				r.m.Settle()
			}
			err := r.read(w, 0, 'w')
			if letGo(); late && err == nil {
				err = r.compute[0].Record().Wait(short(t))
			} else if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "w: contents are lost: its spill from fake:0 failed: boom") {
				t.Errorf("the task that needs it: %v", err)
			}
			if !errors.Is(err, errBoom) {
				t.Errorf("the task that needs it: %v", err)
			}
			r.m.Settle()
			end()
			if err := r.m.Lost(); !errors.Is(err, ErrLost) || !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "the spill of w") {
				t.Errorf("lost: %v", err)
			}
			for what, f := range map[string]func() error{
				"pull-back": func() error { return r.m.PullBack(short(t), ledger.Epoch, w) },
				"view":      func() error { return r.m.View(w, func([]byte) error { return nil }) },
				"salvage":   func() error { return r.m.Salvage(short(t), w, func([]byte) error { return nil }) },
			} {
				if err := f(); !errors.Is(err, errBoom) {
					t.Errorf("%s: %v", what, err)
				}
			}
			r.stream(0)
			r.compute[0], r.compute[1] = r.compute[1], r.compute[0]
			r.mustRead(v, 0, 'v')
			r.fill(w, 'n') // new contents
			r.mustRead(w, 0, 'n')
			if err := r.m.Lost(); err != nil {
				t.Errorf("with new contents: %v", err)
			}
		})
	}
}

// A reader on a device that was given up counts as ended before the writer that it
// waited for. The memory still waits for that writer.
func TestMemoryWaitsForItsWriterWithoutItsReader(t *testing.T) {
	r := newRig(t, 2, rigOptions{}, capacity(8, 8))
	w, x := r.declare("w", 8, device.Weight), r.declare("x", 8, device.Weight)
	letGo := r.compute[0].(*fakeStream).hold()
	r.write(w, 0, 'w')
	r.mustRead(w, 1, 'w')
	r.devs[1].stream("peer").giveUp()
	if err := r.m.Drop(w); err != nil {
		t.Fatal(err)
	}
	r.fill(x, 'x')
	r.mustRead(x, 0, 'x')             // when it runs
	time.Sleep(20 * time.Millisecond) // for a copy that does not wait
	if r.devs[0].stream("copy-in").Record().Done() {
		t.Error("the copy to the memory did not wait")
	}
	letGo()
	if err := r.compute[0].Record().Wait(short(t)); err != nil {
		t.Error(err)
	}
}

// A copy of MoveIn that has failed by the time that the host would give its bytes up
// leaves them on the host, as one that fails later does.
func TestMoveInThatFailsAtOnce(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, func(_ int, d *fakeDev) { d.immediate = true })
	w := r.declare("w", 8, device.Weight)
	r.fill(w, 'w')
	end := r.devs[0].fails("copyin")
	if err := r.m.MoveIn(short(t), []Need{{w, 0, Read}}); err != nil {
		t.Fatal(err)
	}
	r.m.Settle()
	end()
	r.mustRead(w, 0, 'w')
}

// A fed buffer that does not arrive on one device arrives on another.
func TestFedBufferArrivesElsewhere(t *testing.T) {
	r := newRig(t, 2, rigOptions{}, func(_ int, d *fakeDev) { d.peers = false })
	x := r.declare("x", 8, device.Input)
	if err := r.m.Feed(x, r.hostBuffer(8, 'x')); err != nil {
		t.Fatal(err)
	}
	letGo := r.devs[0].stream("copy-in").hold()
	r.devs[0].fails("copyin")
	r.mustRead(x, 0, 'x')
	r.mustRead(x, 1, 'x')
	letGo()
	if err := r.compute[0].Record().Wait(short(t)); !errors.Is(err, errBoom) {
		t.Errorf("where the copy failed: %v", err)
	}
	if err := r.compute[1].Record().Wait(short(t)); err != nil {
		t.Errorf("elsewhere: %v", err)
	}
}

// Bytes that MoveIn moved are the truth again if they did not arrive, also if the tensor
// was evicted meanwhile: its spill has copied other bytes.
func TestMoveInThatFailsUnderASpill(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(8))
	w, x := r.declare("w", 8, device.Weight), r.declare("x", 8, device.Weight)
	r.fill(w, 'w')
	letGo := r.devs[0].stream("copy-in").hold()
	end := r.devs[0].fails("copyin")
	if err := r.m.MoveIn(short(t), []Need{{w, 0, Read}}); err != nil {
		t.Fatal(err)
	}
	r.write(x, 0, 'x') // evicts w
	letGo()
	r.m.Settle()
	end()
	r.mustRead(w, 0, 'w')
	r.mustRead(x, 0, 'x')
	if err := r.compute[0].Record().Wait(short(t)); err != nil {
		t.Error(err)
	}
}

// A fed buffer whose copy-in has failed is still the only one with the contents: it is
// not handed back, and other devices get a copy of it.
func TestFedBufferOfAFailedCopyIsKept(t *testing.T) {
	r := newRig(t, 2, rigOptions{})
	x := r.declare("x", 8, device.Input)
	if err := r.m.Feed(x, r.hostBuffer(8, 'x')); err != nil {
		t.Fatal(err)
	}
	end := r.devs[0].fails("copyin")
	if err := r.m.Prefetch(short(t), []Need{{x, 0, Read}}); err != nil {
		t.Fatal(err)
	}
	r.m.Settle()
	end()
	if _, ok := r.m.FeedDone(x); ok {
		t.Error("the buffer was handed back")
	}
	if err := r.m.Prefetch(short(t), []Need{{x, 1, Read}}); err != nil {
		t.Fatal(err)
	}
	r.mustRead(x, 1, 'x')
	r.mustRead(x, 0, 'x')
	for i, s := range r.compute {
		if err := s.Record().Wait(short(t)); err != nil {
			t.Errorf("device %d: %v", i, err)
		}
	}
	if _, ok := r.m.FeedDone(x); !ok {
		t.Error("the buffer is kept though a device has the contents")
	}
}
