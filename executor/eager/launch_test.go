package eager

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func TestDonation(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats(make([]float32, 1<<16), 1<<16)
	if err := x.Wait(bg); err != nil {
		t.Fatal(err)
	}
	start := r.devs[0].Stats()
	const n = 50
	for range n {
		x = r.One(ops.Affine{Scale: 1, Shift: 1}, x)
	}
	if err := x.Wait(bg); err != nil {
		t.Fatal(err)
	}
	s := r.devs[0].Stats()
	if s.Allocs != start.Allocs || s.PeakBy[device.Activation] != 1<<18 || s.Launches-start.Launches != n {
		t.Errorf("%d allocations, peak %d, %d launches", s.Allocs-start.Allocs, s.PeakBy[device.Activation], s.Launches-start.Launches)
	}
	// With another reference, no donation: the old contents stay.
	y := r.One(ops.Affine{Scale: 2}, x.Ref())
	if err := y.Wait(bg); err != nil {
		t.Fatal(err)
	}
	if v := r.value(x); v[0] != n {
		t.Errorf("the tensor was overwritten: %v", v[0])
	}
	if v := r.value(y); v[0] != 2*n {
		t.Error(v[0])
	}
	if s := r.devs[0].Stats(); s.Allocs-start.Allocs != 1 || s.LiveBy[device.Activation] != 0 {
		t.Errorf("%d allocations, %d bytes live", s.Allocs-start.Allocs, s.LiveBy[device.Activation])
	}
	// A stretched operand cannot give its memory.
	r.expect(r.One(ops.AddOp, r.floats([]float32{1}, 1), r.floats([]float32{1, 2}, 2)), 2, 3)
}

// TestOutOfMemory checks that memory is taken at launch, that a failure to get
// it is the op's, and that it works again when there is room.
func TestOutOfMemory(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	big := ops.Fill{Meta: shape.F32(1 << 18), Value: 1} // a quarter of the budget
	held := []Tensor{r.One(big), r.One(big), r.One(big)}
	bad := r.One(ops.Fill{Meta: shape.F32(1<<20 + 1), Value: 1})
	fails(t, bad.Wait(bg), device.ErrOutOfMemory, "needs", "fill: ", "f32[1048577]")
	for _, x := range held {
		if err := x.Release(); err != nil {
			t.Fatal(err)
		}
	}
	// A chain that is queued faster than it runs: the next launches wait for the
	// memory of earlier ones.
	x := r.One(ops.Fill{Meta: shape.F32(512, 512), Value: 1})
	open := r.gate()
	for range 20 {
		x = r.One(ops.Transpose{Perm: []int{1, 0}}, x)
	}
	open()
	if v := r.value(x); v[0] != 1 {
		t.Error(v[0])
	}
	if d := r.told(); len(d) != 1 {
		t.Errorf("diagnostics %v", d)
	}
}
