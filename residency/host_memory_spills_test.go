package residency

import (
	"errors"
	"fmt"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/hostmem"
	"github.com/berth-ml/berth/residency/ledger"
)

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
