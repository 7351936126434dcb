package residency

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

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

// hosts is how many host buffers of d are not freed.
func hosts(d *fakeDev) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hosts
}
