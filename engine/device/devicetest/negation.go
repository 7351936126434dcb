package devicetest

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Negation is the executable of -x of four floats, a stream, and buffers for its launches.
// The caller closes the stream and frees the buffers, or leaves that to the device.
func Negation(t *testing.T, d device.Device) (x device.Executable, s device.Stream, in, out []device.Buffer) {
	t.Helper()
	x, err := d.Compile(Segment(t, func(b *graph.Builder) []*graph.Value {
		return []*graph.Value{ops.Neg(b, b.Input("x", shape.F32(4)))}
	}), device.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = d.NewStream("s"); err != nil {
		t.Fatal(err)
	}
	from, err1 := s.Alloc(shape.F32(4), device.Input)
	to, err2 := s.Alloc(shape.F32(4), device.Activation)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return x, s, []device.Buffer{from}, []device.Buffer{to}
}
