package streams

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An estimate is kept until its graph is compiled, and no longer.
func TestEstimateIsKeptForCompile(t *testing.T) {
	d := counting(t)
	g := devicetest.Segment(t, func(b *graph.Builder) []*graph.Value {
		return []*graph.Value{ops.Neg(b, b.Input("x", shape.F32(4)))}
	})
	if _, err := d.Estimate(g, device.CompileOptions{}); err != nil || len(d.estimated) != 1 {
		t.Errorf("%d estimates are kept, %v", len(d.estimated), err)
	}
	if _, err := d.Compile(g, device.CompileOptions{}); err != nil || len(d.estimated) != 0 {
		t.Errorf("%d estimates are kept for graphs that were compiled, %v", len(d.estimated), err)
	}
}
