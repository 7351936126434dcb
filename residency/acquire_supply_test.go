package residency

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

func TestErrBudget(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(20))
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
	for _, part := range []string{"w u8[16]", "fake:0", "24 B", "of 20"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if n := strings.Count(err.Error(), "smaller microbatches"); n != 1 {
		t.Errorf("%q gives its advice %d times", err, n)
	}
	if held := r.devs[0].Stats().Live; held != 8 {
		t.Errorf("%d bytes held after the failure, want u's 8", held)
	}
	r.mustRead(w, 0, 'w') // still works
	var l Lease
	if err := r.m.Acquire(short(t), r.compute[0], []Need{{w, 0, Read}}, 0, &l); err != nil {
		t.Fatal(err)
	}
	if err := r.task(0, nop, Need{v, 0, Read}); !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "16 B more are in use") {
		t.Errorf("while its own lease is held: %v", err)
	}
	if err := r.m.Release(&l, device.Event{}); err != nil {
		t.Fatal(err)
	}
	r.mustRead(v, 0, 'v')
}

// TestTakesMemoryInUse: memory that queued work still uses is taken at once, for
// any usage, and written when that work has ended.
func TestTakesMemoryInUse(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(16))
	a, b := r.declare("a", 16, device.Activation), r.declare("b", 16, device.Grad)
	second := r.addStream(0)
	free := r.compute[0].(*fakeStream).hold()
	r.write(a, 0, 'a')
	if err := r.m.Drop(a); err != nil {
		t.Fatal(err)
	}
	r.on(0, second, func() { r.write(b, 0, 'b') })
	time.Sleep(5 * time.Millisecond)
	if second.Record().Done() {
		t.Error("memory was written while a task used it")
	}
	free()
	r.on(0, second, func() { r.mustRead(b, 0, 'b') })
}

// TestWaitsForOtherLeases: a lease of another stream is waited for.
func TestWaitsForOtherLeases(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(16))
	a, b := r.declare("a", 16, device.Activation), r.declare("b", 16, device.Activation)
	second, err := r.devs[0].NewStream("second")
	if err != nil {
		t.Fatal(err)
	}
	r.compute = append(r.compute, second)
	for name, needs := range map[string][]Need{"room": {{b, 0, Write}}, "conflict": {{a, 0, ReadWrite}}} {
		r.write(a, 0, 'a')
		var l Lease
		if err := r.m.Acquire(short(t), r.compute[0], []Need{{a, 0, ReadWrite}}, 0, &l); err != nil {
			t.Fatal(err)
		}
		if err := r.m.Acquire(short(t), r.compute[0], []Need{{a, 0, Read}}, 0, new(Lease)); !errors.Is(err, ErrLeased) {
			t.Errorf("%s: conflict with its own lease: %v", name, err)
		}
		done := make(chan error)
		go func() {
			var l Lease
			err := r.m.Acquire(short(t), second, needs, 0, &l)
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

// Where the bytes are free, and a lease of another stream keeps them in pieces, a call
// waits for that lease: it evicts nothing meanwhile.
func TestPiecesBetweenLeasesEvictNothing(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(32))
	low, gap, mid, large := r.declare("low", 8, device.Weight), r.declare("gap", 4, device.Weight), r.declare("mid", 8, device.Weight), r.declare("large", 16, device.Weight)
	for _, x := range []*Tensor{low, gap, mid} { // 12 bytes stay free behind them
		r.write(x, 0, 'a')
	}
	if err := r.m.Drop(gap); err != nil {
		t.Fatal(err)
	}
	var other Lease
	if err := r.m.Acquire(short(t), r.stream(0), []Need{{mid, 0, Read}}, 0, &other); err != nil {
		t.Fatal(err)
	}
	r.kinds()
	c := r.acquire(short(t), r.compute[0], Need{large, 0, Write})
	if r.waits(1, c) {
		t.Fatal("it has not waited")
	}
	if got := r.kinds(); got != "" {
		t.Errorf("while it waited: %s", got)
	}
	if err := r.m.Release(&other, device.Event{}); err != nil {
		t.Fatal(err)
	}
	r.served(c)
	r.mustRead(low, 0, 'a')
}
