package cl

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// A device that has too little for a kernel says so when the kernel is compiled, and
// compiling can be stopped.
func TestCompileFailures(t *testing.T) {
	sum := devicetest.Segment(t, func(b *graph.Builder) []*graph.Value {
		x := b.Input("x", shape.F32(4, 4))
		defer b.In(&graph.Layer{Index: 2, Type: "dense", Name: "h", Block: "h", Pos: graph.Pos{File: "m.yaml", Line: 7}})()
		return []*graph.Value{ops.MatMulOf(b, x, x, false, false)}
	})
	d, _ := openFaulty(t, device.OpenOptions{}, func(f *found) { f.local = 16 })
	for range 2 {
		_, err := d.Compile(sum, device.CompileOptions{})
		if !errors.Is(err, device.ErrUnsupported) || !strings.Contains(err.Error(), "16 B") || !strings.Contains(err.Error(), "m.yaml:7") {
			t.Errorf("local memory of 16 bytes: %v", err)
		}
	}
	stopped := errors.New("stopped")
	if _, err := d.Compile(negate(t), device.CompileOptions{Stop: func() error { return stopped }}); !errors.Is(err, stopped) {
		t.Errorf("stopped: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// The error of a kernel that a driver does not compile has the op, its place in the
// config, and the line of its text.
func TestCompileError(t *testing.T) {
	list, err := usable()
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	c, err := openContext(list[0])
	if err != nil {
		t.Fatal(err)
	}
	n := negate(t).Nodes[0]
	good := gen.Call{Name: "good", Source: "KERNEL void good(GLOBAL f32* x) {\n\tx[0] = 1.0f;\n}\n"}
	bad := gen.Call{Node: n, Name: "bad", Source: "KERNEL void bad(GLOBAL f32* x) {\n\tx[0] = 1.0f;\n\tx[1] = wrong;\n}\n"}
	_, err = c.compile(newUnit([]*gen.Call{&good, &bad}))
	for _, part := range []string{`layer 2 (dense "h")`, "m.yaml:7", "CL_BUILD_PROGRAM_FAILURE (-11)", "line 3", "x[1] = wrong;", "wrong'"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}
