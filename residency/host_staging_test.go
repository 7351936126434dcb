package residency

import (
	"context"
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// staged waits for the copy of tensor i and compares it.
func (r *rig) staged(s *Staging, i int, b byte) {
	r.Helper()
	if err := s.Wait(short(r.T), i); err != nil {
		r.Fatal(err)
	}
	if got := string(s.Bytes(i)); got != string(pattern(s.copies[i].t.bytes, b)) {
		r.Errorf("the copy of tensor %d is %q, not of %q", i, got, b)
	}
}

// TestStagingKeepsTheMoment: writes after a copy was queued do not show in it,
// and a writer waits for the copy of its own tensor only.
func TestStagingKeepsTheMoment(t *testing.T) {
	r := newRig(t, 2, rigOptions{})
	a, b := r.declare("a", 8, device.Weight), r.declare("b", 8, device.Weight)
	r.write(a, 0, 'a')
	r.write(b, 1, 'b')
	s := r.m.NewStaging(a, b)
	free := r.devs[1].stream("copy-out").hold()
	for i := range 2 {
		if err := s.Queue(short(t), ledger.Checkpoint, i); err != nil {
			t.Fatal(err)
		}
	}
	r.write(a, 0, 'x')
	if err := r.compute[0].Record().Wait(short(t)); err != nil {
		t.Fatal(err)
	}
	r.write(b, 1, 'y')
	if r.compute[1].Record().Done() {
		t.Error("a writer did not wait for the copy of what it writes")
	}
	r.staged(s, 0, 'a')
	free()
	r.staged(s, 1, 'b')
	r.mustRead(b, 1, 'y')
	s.Close()
}

// A run that is stopped does not reserve memory that its last save may never
// need.
func TestReserveEndsWithItsContext(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	a := r.declare("a", 8, device.Weight)
	r.write(a, 0, 'a')
	s := r.m.NewStaging(a)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for i, ctx := range []context.Context{over, t.Context()} {
		if err := s.Reserve(ctx); err != nil {
			t.Fatal(err)
		}
		if n := hosts(r.devs[0]); n != i {
			t.Errorf("%d host buffers, expected %d", n, i)
		}
	}
	s.Close()
}

// TestStagingIsReused: a copy uses the memory of the one before, even if the
// tensor has moved or is on the host.
func TestStagingIsReused(t *testing.T) {
	r := newRig(t, 2, rigOptions{})
	a := r.declare("a", 8, device.Weight)
	s := r.m.NewStaging(a)
	queue := func() {
		t.Helper()
		if err := s.Queue(short(t), ledger.Checkpoint, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Queue(short(t), ledger.Checkpoint, 0); !errors.Is(err, ErrUndefined) {
		t.Errorf("a tensor without contents: %v", err)
	}
	for _, b := range []byte("abc") {
		r.write(a, 0, b)
		queue()
		r.staged(s, 0, b)
		if n := hosts(r.devs[0]); n != 1 {
			t.Errorf("%d host buffers", n)
		}
	}
	r.write(a, 1, 'd')
	queue()
	r.staged(s, 0, 'd')
	r.fill(a, 'e')
	queue()
	r.mustRead(a, 0, 'e')
	r.write(a, 0, 'f')
	r.staged(s, 0, 'e')
	queue()
	r.staged(s, 0, 'f')
	if err := s.Queue(short(t), "whim", 0); err == nil {
		t.Error("a reason that is none is accepted")
	}
	s.Close()
	r.mustRead(a, 0, 'f') // any call frees the memory of copies that have ended
	if n := hosts(r.devs[0]) + hosts(r.devs[1]); n != 0 {
		t.Errorf("%d host buffers are left", n)
	}
}
