package residency

import (
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
)

var errBoom = errors.New("boom")

// late makes the next operation of a kind fail when it runs.
func (d *fakeDev) late(op string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail[op] = errBoom
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
		if err := s.Queue(short(t), Epoch, i); err != nil {
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

// A copy to the host that fails does not fail later ones, and can be repeated.
func TestCopiesToTheHostGoOnAfterAFailure(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
	r.write(w, 0, 'w')
	r.write(v, 0, 'v')
	r.devs[0].late("copyout")
	if err := r.m.PullBack(short(t), Epoch, w); !errors.Is(err, errBoom) {
		t.Fatalf("the copy that fails: %v", err)
	}
	for x, want := range map[*Tensor]string{v: "vvvvvvvv", w: "wwwwwwww"} {
		got := ""
		err := r.m.PullBack(short(t), Epoch, x)
		if err == nil {
			err = r.m.View(x, func(b []byte) error { got = string(b); return nil })
		}
		if err != nil || got != want {
			t.Errorf("%s afterwards: %q, %v", x.Name(), got, err)
		}
	}
}

// A copy to a device that failed is taken again from the truth.
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
		r.devs[on].late(op)
		if err := r.m.Prefetch(short(t), []Need{{w, on, Read}, {v, on, Read}}); err != nil {
			t.Fatal(err)
		}
		if errs := r.m.Settle(); len(errs) == 0 {
			t.Fatalf("%s: nothing failed", op)
		}
		r.mustRead(w, on, 'w')
		r.mustRead(v, on, 'v')
		if err := r.compute[on].Record().Wait(short(t)); err != nil {
			t.Errorf("%s: the tasks: %v", op, err)
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
	r.devs[0].late("copyin")
	if err := r.m.MoveIn(short(t), []Need{{w, 0, Read}, {v, 0, Read}, {u, 0, Read}}); err != nil {
		t.Fatal(err)
	}
	letGo()
	if errs := r.m.Settle(); len(errs) == 0 {
		t.Fatal("nothing failed")
	}
	r.mustRead(w, 0, 'w')
	if err := r.compute[0].Record().Wait(short(t)); err != nil {
		t.Error(err)
	}
	got := ""
	err := r.m.PullBack(short(t), Epoch, v)
	if err == nil {
		err = r.m.View(v, func(b []byte) error { got = string(b); return nil })
	}
	if err != nil || got != "vvvvvvvv" {
		t.Errorf("v: %q, %v", got, err)
	}
	r.fill(u, 'x') // what was there before does not come back
	r.mustRead(u, 0, 'x')
}

// A copy that fails is the failure of the task that waits for it already, also
// when nothing is left to take it from.
func TestCopyThatFailsUnderItsTask(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	r.fill(w, 'w')
	letGo := r.devs[0].stream("copy-in").hold()
	r.devs[0].late("copyin")
	if err := r.task(0, func([][]byte) error { return nil }, Need{w, 0, Read}); err != nil {
		t.Fatal(err)
	}
	letGo()
	if err := r.compute[0].Record().Wait(short(t)); !errors.Is(err, errBoom) {
		t.Errorf("the task: %v", err)
	}
}
