package residency

import (
	"runtime"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// now makes an attempt at a lease, and ends it without a task.
func (r *rig) now(needs ...Need) bool {
	r.Helper()
	var l Lease
	ok := r.m.AcquireNow(r.compute[0], needs, &l)
	if ok {
		if len(l.Buffers) != len(needs) {
			r.Fatalf("%d buffers for %d needs", len(l.Buffers), len(needs))
		}
		if err := r.m.Abandon(&l); err != nil {
			r.Fatal(err)
		}
	}
	return ok
}

// TestAcquireNow leases exactly what needs no copy, no room and no wait.
func TestAcquireNow(t *testing.T) {
	r := newRig(t, 2, rigOptions{}, capacity(12, 12))
	x, y, out := r.declare("x", 4, device.Activation), r.declare("y", 4, device.Activation), r.declare("out", 4, device.Activation)
	out2 := r.declare("out2", 4, device.Activation)
	r.fill(x, 'a')
	expect := func(want bool, why string, needs ...Need) {
		t.Helper()
		if got := r.now(needs...); got != want {
			t.Errorf("%s: %v", why, got)
		}
		if len(r.m.leases) != 0 || r.m.devs[0].leased != 0 {
			t.Fatalf("%s: %d leases, %d bytes leased", why, len(r.m.leases), r.m.devs[0].leased)
		}
	}
	expect(false, "on the host", Need{x, 0, Read})
	r.mustRead(x, 0, 'a')
	wait := func() {
		t.Helper()
		if err := r.m.Settle(); err != nil {
			t.Fatal(err)
		}
	}
	wait()
	r.kinds()
	expect(true, "it is there", Need{x, 0, Read}, Need{x, 0, Read}, Need{out, 0, Write})
	if got := r.kinds(); got != "hit x fake:0>fake:0; hit x fake:0>fake:0; drop out fake:0>" {
		t.Errorf("the ledger has %q", got)
	}
	expect(false, "read and written", Need{x, 0, Read}, Need{x, 0, Write})
	expect(false, "written and read", Need{x, 0, Write}, Need{x, 0, Read})
	expect(false, "without contents", Need{y, 0, Read})
	r.write(y, 0, 'b')
	expect(true, "queued on the same stream", Need{y, 0, ReadWrite})
	big := r.declare("big", 8, device.Activation)
	expect(false, "no room", Need{big, 0, Write})
	live := r.devs[0].Stats().Live
	expect(false, "written, and then without contents", Need{out, 0, Write}, Need{x, 0, Read}, Need{out2, 0, Read})
	if now := r.devs[0].Stats().Live; now != live {
		t.Errorf("%d bytes were kept for what was not acquired", now-live)
	}
	other, err := r.m.Manager.Join(t.Context(), TenantOptions{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Declare(Key{Value: "foreign"}, shape.F32(1), device.Activation)
	if err != nil {
		t.Fatal(err)
	}
	expect(false, "of another tenant", Need{foreign, 0, Write})
	expect(false, "on a device that there is not", Need{out, 2, Write})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if x.Location() != "host, clean on fake:0" || y.Location() != "fake:0" {
		t.Errorf("something left: x is at %s, y at %s", x.Location(), y.Location())
	}

	open := r.devs[0].stream("copy-out").hold()
	pulled := make(chan error, 1)
	go func() { pulled <- r.m.PullBack(short(t), "debug", y) }()
	for queued := false; !queued; runtime.Gosched() {
		r.m.mu.Lock()
		queued = len(y.copies[0].readers) > 1
		r.m.mu.Unlock()
	}
	expect(true, "read while it is copied out", Need{y, 0, Read})
	expect(false, "written while it is copied out", Need{y, 0, Write})
	open()
	if err := <-pulled; err != nil {
		t.Fatal(err)
	}
	expect(true, "written afterwards", Need{y, 0, Write})

	var l Lease
	if err := r.m.Acquire(short(t), r.compute[1], []Need{{y, 0, Write}}, 0, &l); err != nil {
		t.Fatal(err)
	}
	if r.now(Need{y, 0, Read}) || r.now(Need{y, 0, Write}) || !r.now(Need{x, 0, Read}) {
		t.Error("a lease of another stream was not respected")
	}
	if err := r.m.Abandon(&l); err != nil {
		t.Fatal(err)
	}
	r.m.SetUses(r.m.NewUses(reads(x)))
	expect(false, "an order of uses was announced", Need{x, 0, Read})
	r.m.SetUses(nil)
}

// TestDiscard: contents that nobody needs leave without a copy, and their memory is
// written again without asking for any.
func TestDiscard(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(8))
	x, y, z := r.declare("x", 4, device.Activation), r.declare("y", 4, device.Activation), r.declare("z", 4, device.Activation)
	r.write(x, 0, 'a')
	r.m.Discard(x)
	allocs := r.devs[0].Stats().Allocs
	r.write(x, 0, 'b') // in the same memory
	r.mustRead(x, 0, 'b')
	if n := r.devs[0].Stats().Allocs; n != allocs {
		t.Errorf("%d allocations to write a discarded tensor", n-allocs)
	}
	r.write(y, 0, 'c')
	r.m.Discard(y)
	r.mustRead(x, 0, 'b') // used later than y
	r.kinds()
	r.write(z, 0, 'd')
	if got := r.kinds(); got != "drop y fake:0>" {
		t.Errorf("to make room: %s", got)
	}
	if y.Location() != "nowhere" {
		t.Errorf("y is at %s", y.Location())
	}
	r.m.Discard(y, x)
	r.fill(x, 'e')
	r.mustRead(x, 0, 'e')
	r.write(y, 0, 'f') // x and z have contents that count
	r.kinds()
	r.mustRead(x, 0, 'e')
	r.mustRead(z, 0, 'd')
	if got := r.kinds(); got == "" {
		t.Error("nothing moved: the memory has room for two")
	}
}

// TestDiscardedElsewhere: discarded contents make room also while a task on another device
// has a lease to write the tensor there.
func TestDiscardedElsewhere(t *testing.T) {
	r := newRig(t, 2, rigOptions{}, capacity(4, 4))
	x, y := r.declare("x", 4, device.Activation), r.declare("y", 4, device.Activation)
	r.write(x, 0, 'a')
	r.m.Discard(x)
	var l Lease
	if err := r.m.Acquire(short(t), r.compute[1], []Need{{x, 1, Write}}, 0, &l); err != nil {
		t.Fatal(err)
	}
	r.write(y, 0, 'b')
	if err := r.m.Abandon(&l); err != nil {
		t.Fatal(err)
	}
	if x.Location() != "nowhere" {
		t.Errorf("x is at %s", x.Location())
	}
	r.mustRead(y, 0, 'b')
}
