package devicetest

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// testEstimate estimates random graphs, and one that does not fit, before and
// after they are compiled.
func testEstimate(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Threads: 2, MemoryBytes: 1 << 22}, func(r *rig) {
		described, err := device.Describe(r.d.Spec())
		if err == nil { // not every kind is planned for from elsewhere
			defer func() { r.ok(described.Close()) }()
		}
		rapid.Check(t, func(rt *rapid.T) {
			g := randomGraph(rt)
			o := device.CompileOptions{Alias: randomAlias(rt, g), CheckFinite: rapid.Bool().Draw(rt, "check finite")}
			r.estimate(rt, g, o)
			if err == nil {
				sameOf(rt, r.d, described, g, o)
			}
		})
		large := Segment(t, func(b *graph.Builder) []*graph.Value {
			x := b.Input("x", shape.F32(1<<11, 1<<11))
			return []*graph.Value{ops.MatMulOf(b, ops.Tanh(b, x), ops.Exp(b, x), false, false)}
		})
		m, failure := r.d.Estimate(large, device.CompileOptions{})
		r.ok(failure)
		if m.Arguments != 1<<24 || m.Outputs != 1<<24 || m.Temporary < 1<<24 {
			t.Errorf("the estimate is %+v for matrices of %d bytes", m, 1<<24)
		}
	})
}

// estimate compares the estimate of a graph with the memory of its executable.
// Compile must fail as the estimate did.
func (r *rig) estimate(rt *rapid.T, g *graph.Graph, o device.CompileOptions) {
	before := r.d.Stats()
	estimated, failure := r.d.Estimate(g, o)
	if now := r.d.Stats(); now != before {
		rt.Fatalf("estimating changed the device's counts from %+v to %+v", before, now)
	}
	x, err := r.d.Compile(g, o)
	if failure != nil || err != nil {
		if failure == nil || err == nil || failure.Error() != err.Error() {
			rt.Fatalf("Estimate fails with %v, Compile with %v", failure, err)
		}
		return
	}
	if estimated != x.Memory() {
		rt.Fatalf("the estimate is %+v, the executable's memory %+v", estimated, x.Memory())
	}
	if again, err := r.d.Estimate(g, o); err != nil || again != estimated {
		rt.Fatalf("after compiling the estimate is %+v (%v), before it was %+v", again, err, estimated)
	}
}

// sameOf compares what a device says of a graph with what its description does.
func sameOf(rt *rapid.T, d, described device.Device, g *graph.Graph, o device.CompileOptions) {
	if described.Spec() != d.Spec() {
		rt.Fatalf("the description says %+v, and the device %+v", described.Spec(), d.Spec())
	}
	want, failure := d.Estimate(g, o)
	got, err := described.Estimate(g, o)
	if got != want || (err == nil) != (failure == nil) {
		rt.Fatalf("the description takes %+v (%v), and the device %+v (%v)", got, err, want, failure)
	}
	for _, n := range g.Nodes {
		if a, b := d.Supports(n), described.Supports(n); (a == nil) != (b == nil) {
			rt.Fatalf("%v: the device says %v, and its description %v", n, a, b)
		}
	}
}
