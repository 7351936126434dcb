package residency

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/hostmem"
	"github.com/berth-ml/berth/residency/ledger"
)

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
	if d, err := r.m.EnsureHost(short(t), ledger.Epoch, w); err != nil || d[0] != 'b' {
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
		t.Errorf("host memory is %+v: two tensors fit beside the bytes held", m)
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
		if d, err := r.m.EnsureHost(short(t), ledger.Epoch, x); err != nil || d[0] != byte(10*i+5) {
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
