package streams

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// counting opens a device whose memory is only counted.
func counting(t *testing.T) *Device {
	t.Helper()
	d, err := New(Config{Spec: device.Spec{ID: "toy:0", Kind: "toy", MemoryBytes: 1 << 16}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestSteadyStateOfPackingAllocatesNothing packs as the microbatches of a step do.
func TestSteadyStateOfPackingAllocatesNothing(t *testing.T) {
	const bytes = 64
	d := counting(t)
	s, err := d.NewStream("s")
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Alloc(shape.F32(bytes/4), device.Weight)
	if err != nil {
		t.Fatal(err)
	}
	b := w.(*buffer)
	l := &Launch{x: &executable{owner: d}, in: []*buffer{b}}
	n := testing.AllocsPerRun(100, func() {
		b.wrote()
		for range 3 {
			l.OpenPacked(0, "negated", bytes)
			l.ClosePacked(true)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a step", n)
	}
	if off, made := l.OpenPacked(0, "negated", bytes); off < 0 || !made || d.Stats().Cached != bytes {
		t.Errorf("the copy is at %d, made: %v; %d bytes are cached", off, made, d.Stats().Cached)
	}
	l.ClosePacked(true)
	for _, err := range []error{w.Free(), s.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}
