package cl

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// Host memory of a device with memory of its own is pinned, where the driver can, and
// serves where it cannot.
func TestPinnedMemory(t *testing.T) {
	for _, fails := range []status{0, allocationFailure} {
		d, driver := openFaulty(t, device.OpenOptions{}, func(f *found) { f.unified = false })
		driver.fails[enqueueMapBuffer] = fails
		h, err := d.AllocHost(64)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range h.Bytes() {
			if v != 0 {
				t.Fatalf("byte %d is not zero", i)
			}
			h.Bytes()[i] = byte(i)
		}
		s, _ := d.NewStream("s")
		b, _ := s.Alloc(shape.F32(16), device.Activation)
		if err := s.CopyIn(b, h); err != nil {
			t.Fatal(err)
		}
		if err := b.Ready().Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		clear(h.Bytes())
		e, err := s.CopyOut(h, b)
		if err == nil {
			err = e.Wait(t.Context())
		}
		if err != nil || h.Bytes()[63] != 63 {
			t.Errorf("copied back %v, %v", h.Bytes(), err)
		}
		for _, err := range []error{h.Free(), s.Close(), b.Free(), d.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
		made, given := driver.calls[createBuffer].Load(), driver.calls[releaseMemObject].Load()
		if pinned := driver.calls[enqueueUnmapMemObject].Load() == 1; pinned != (fails == 0) || made != given {
			t.Errorf("pinned: %v; %d objects made, %d given back", pinned, made, given)
		}
	}
}
