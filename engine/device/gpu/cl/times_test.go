package cl

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// The times of kernels come by the names of their ops, where they are wanted.
func TestKernelTimes(t *testing.T) {
	var spans []device.KernelSpan
	wanted := false
	d, _ := openFaulty(t, device.OpenOptions{Sync: true, OnKernel: func(s device.KernelSpan) { spans = append(spans, s) }, WantKernels: func() bool { return wanted }}, nil)
	x, err := d.Compile(negate(t), device.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStream("s")
	a, _ := s.Alloc(shape.F32(4), device.Activation)
	b, _ := s.Alloc(shape.F32(4), device.Activation)
	for range 2 {
		if _, err := s.Launch(x, []device.Buffer{a}, []device.Buffer{b}, nil); err != nil {
			t.Fatal(err)
		}
		wanted = true
	}
	if len(spans) != 1 || spans[0].Work.Name != "neg" || spans[0].End.Before(spans[0].Start) {
		t.Errorf("spans %+v", spans)
	}
	for _, err := range []error{s.Close(), a.Free(), b.Free(), d.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}
