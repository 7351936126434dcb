package speed_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/speed"
)

// graphOf is the graph of a step of a chain of dense layers.
func graphOf(t interface{ Fatal(...any) }, blocks, width int) *graph.Graph {
	g, err := nets.Chain(blocks, width, 4, 1).Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// drawSpec is a device: without a rate it has no time of its own.
func drawSpec(t *rapid.T, name string) device.Spec {
	return device.Spec{
		ID: device.ID(name), Kind: rapid.SampledFrom([]string{"cpu", "other"}).Draw(t, "kind"), PeerCopy: rapid.Bool().Draw(t, "peer"),
		FlopsPerSecond: rapid.SampledFrom([]float64{0, 1e6, 1e12}).Draw(t, "flops"), LinkBytesPerS: rapid.SampledFrom([]float64{0, 1e5, 1e10}).Draw(t, "link"),
	}
}

// TestMoreTakesLonger: more nodes, more bytes, a slower device and a slower link never take less
// time, and no time is negative or infinite.
func TestMoreTakesLonger(t *testing.T) {
	g := graphOf(t, 3, 8)
	rapid.Check(t, func(t *rapid.T) {
		o := speed.Speeds{OpByOp: rapid.Bool().Draw(t, "op by op")}
		a, b := drawSpec(t, "a"), drawSpec(t, "b")
		slower := a
		slower.FlopsPerSecond, slower.LinkBytesPerS = a.FlopsPerSecond/2, a.LinkBytesPerS/2
		o.Devices = []device.Spec{a, b, slower}
		most := rapid.IntRange(0, len(g.Nodes)-1).Draw(t, "nodes")
		part, whole := *g, *g
		part.Nodes, whole.Nodes = g.Nodes[:most], g.Nodes[:most+1]
		few, _ := o.RunSeconds(stop.When(nil), &part, 0)
		many, _ := o.RunSeconds(stop.When(nil), &whole, 0)
		late, _ := o.RunSeconds(stop.When(nil), &whole, 2)
		n := rapid.Int64Range(0, 1<<40).Draw(t, "bytes")
		for name, x := range map[string][2]float64{
			"nodes": {few, many}, "a slower device": {many, late},
			"bytes between devices": {o.CopySeconds(n, 0, 1), o.CopySeconds(n+1<<20, 0, 1)}, "a slower link": {o.CopySeconds(n, 0, 1), o.CopySeconds(n, 2, 1)},
			"bytes from the host": {o.HostSeconds(0, n, false), o.HostSeconds(0, n+1<<20, false)}, "bytes that move": {speed.MovingSeconds(n, a), speed.MovingSeconds(n+1<<20, a)},
		} {
			if x[0] > x[1] || x[0] < 0 || math.IsInf(x[1], 0) || math.IsNaN(x[1]) {
				t.Fatalf("more %s: %v s, then %v s", name, x[0], x[1])
			}
		}
		if got, back := o.CopySeconds(n, 0, 1), o.CopySeconds(n, 1, 0); got != back {
			t.Fatalf("%d bytes take %v s one way and %v s the other", n, got, back)
		}
	})
}

// TestMeasuredTimesCount: a time that is known is taken as it is, and one that is not is made up.
func TestMeasuredTimesCount(t *testing.T) {
	g := graphOf(t, 1, 8)
	for _, known := range []bool{false, true} {
		o := speed.Speeds{
			Devices: nets.Specs(2, 0),
			Run:     func(d int, _ *graph.Graph) (float64, bool) { return 10 + float64(d), known },
			Copies:  func(from, to int, bytes int64) (float64, bool) { return 20 + float64(from), known },
			Host:    func(d int, bytes int64, out bool) (float64, bool) { return 30 + float64(d), known },
		}
		run, measured := o.RunSeconds(stop.When(nil), g, 1)
		if measured != known {
			t.Errorf("known %v: the run is measured: %v", known, measured)
		}
		for name, x := range map[string]struct{ got, want float64 }{
			"run": {run, 11}, "copy": {o.CopySeconds(4, 1, 0), 21}, "host": {o.HostSeconds(1, 4, true), 31},
		} {
			if (x.got == x.want) != known || x.got <= 0 || !known && x.got > 1 {
				t.Errorf("known %v: %s takes %v s", known, name, x.got)
			}
		}
	}
}

// TestLinks adds the links of two devices up where bytes pass through the host, and takes the
// slower one where they do not.
func TestLinks(t *testing.T) {
	devices := nets.Specs(2, 0)
	devices[0].LinkBytesPerS, devices[1].LinkBytesPerS = 10, 5
	for _, peers := range []bool{false, true} {
		devices[0].PeerCopy, devices[1].PeerCopy = peers, peers
		o, want := speed.Speeds{Devices: devices}, 100.0/10+100.0/5
		if peers {
			want = 100.0 / 5
		}
		if got := o.CopySeconds(100, 0, 1); math.Abs(got-want-speed.Overhead) > 1e-9 {
			t.Errorf("peers %v: %v s, want %v", peers, got, want)
		}
		if speed.Direct(devices[0], devices[1]) != peers {
			t.Errorf("peers %v: direct is %v", peers, !peers)
		}
	}
}
