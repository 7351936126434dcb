package residency

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

func TestErrBudget(t *testing.T) {
	check := func(t *testing.T, r *rig) {
		w, v, u := r.declare("w", 16, device.Weight), r.declare("v", 8, device.Weight), r.declare("u", 8, device.Weight)
		r.fill(w, 'w')
		r.fill(v, 'v')
		r.fill(u, 'u')
		r.mustRead(u, 0, 'u')
		nop := func([][]byte) error { return nil }
		err := r.task(0, nop, Need{w, 0, Read}, Need{v, 0, Read})
		if !errors.Is(err, ErrBudget) {
			t.Fatalf("error is %v", err)
		}
		for _, part := range []string{"w u8[16]", "fake:0", "24 bytes", "budget 20"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if held := r.m.Memory(0).Used; held != 8 {
			t.Errorf("%d bytes held after the failure, want u's 8", held)
		}
		r.mustRead(w, 0, 'w') // still works
		var l Lease
		if err := r.m.Acquire(short(t), r.compute[0], []Need{{w, 0, Read}}, &l); err != nil {
			t.Fatal(err)
		}
		if err := r.task(0, nop, Need{v, 0, Read}); !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "16 bytes are leased") {
			t.Errorf("beside its own lease: %v", err)
		}
		if err := r.m.Release(&l, device.Event{}); err != nil {
			t.Fatal(err)
		}
		r.mustRead(v, 0, 'v')
	}
	t.Run("budget", func(t *testing.T) { check(t, newRig(t, 1, ManagerOptions{Budgets: []int64{20}})) })
	t.Run("device", func(t *testing.T) {
		r := newRig(t, 1, ManagerOptions{}, func(_ int, d *fakeDev) { d.capacity = 20 })
		w, v := r.declare("w", 16, device.Weight), r.declare("v", 8, device.Weight)
		r.fill(w, 'w')
		r.fill(v, 'v')
		nop := func([][]byte) error { return nil }
		err := r.task(0, nop, Need{w, 0, Read}, Need{v, 0, Read})
		if !errors.Is(err, ErrBudget) || !errors.Is(err, device.ErrOutOfMemory) {
			t.Fatalf("error is %v", err)
		}
		if held := r.m.Memory(0).Used; held != 0 {
			t.Errorf("%d bytes held after the failure", held)
		}
		r.mustRead(v, 0, 'v')
	})
}

// TestWaitsForMemory: memory that queued work still uses is waited for, not
// taken for another usage; a context ends the wait.
func TestWaitsForMemory(t *testing.T) {
	for _, limit := range []string{"budget", "device"} {
		t.Run(limit, func(t *testing.T) {
			o, change := ManagerOptions{Budgets: []int64{16}}, func(int, *fakeDev) {}
			if limit == "device" {
				o, change = ManagerOptions{}, func(_ int, d *fakeDev) { d.capacity = 16 }
			}
			r := newRig(t, 1, o, change)
			a, b := r.declare("a", 16, device.Activation), r.declare("b", 16, device.Grad)
			free := r.compute[0].(*fakeStream).hold()
			r.write(a, 0, 'a')
			if err := r.m.Drop(a); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			var l Lease
			needs := []Need{{b, 0, Write}}
			if err := r.m.Acquire(ctx, r.compute[0], needs, &l); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("acquired while the memory is in use: %v", err)
			}
			time.AfterFunc(10*time.Millisecond, free)
			r.write(b, 0, 'b')
			r.mustRead(b, 0, 'b')
		})
	}
}

// TestWaitsForOtherLeases: a lease of another stream is waited for.
func TestWaitsForOtherLeases(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{Budgets: []int64{16}})
	a, b := r.declare("a", 16, device.Activation), r.declare("b", 16, device.Activation)
	second, err := r.devs[0].NewStream("second")
	if err != nil {
		t.Fatal(err)
	}
	r.compute = append(r.compute, second)
	for name, needs := range map[string][]Need{"room": {{b, 0, Write}}, "conflict": {{a, 0, ReadWrite}}} {
		r.write(a, 0, 'a')
		var l Lease
		if err := r.m.Acquire(short(t), r.compute[0], []Need{{a, 0, ReadWrite}}, &l); err != nil {
			t.Fatal(err)
		}
		if err := r.m.Acquire(short(t), r.compute[0], []Need{{a, 0, Read}}, new(Lease)); !errors.Is(err, ErrLeased) {
			t.Errorf("%s: conflict with its own lease: %v", name, err)
		}
		done := make(chan error)
		go func() {
			var l Lease
			err := r.m.Acquire(short(t), second, needs, &l)
			if err == nil {
				err = r.m.Release(&l, device.Event{})
			}
			done <- err
		}()
		select {
		case err := <-done:
			t.Fatalf("%s: did not wait: %v", name, err)
		case <-time.After(20 * time.Millisecond):
		}
		if err := r.m.Release(&l, device.Event{}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
