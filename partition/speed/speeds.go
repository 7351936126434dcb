package speed

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// The functions below are measured times. Devices are counted as in PlanOptions.Devices.

// Seconds is the time of one run of a graph on device d; ok is false
// if it is not known.
type Seconds func(d int, g *graph.Graph) (seconds float64, ok bool)

// CallSeconds is the time of a call of an op on device d, without its work.
// ok is false if it is not known.
type CallSeconds func(d int) (seconds float64, ok bool)

// HostSeconds is the time of a copy from the host to device d, or out of it
// to the host. ok is false if it is not known.
type HostSeconds func(d int, bytes int64, out bool) (seconds float64, ok bool)

// CopySeconds is the time from the end of a launch on one device until
// another can begin a launch that reads so many bytes of it.
type CopySeconds func(from, to int, bytes int64) (seconds float64, ok bool)

// Speeds are the times of what devices do: those that were measured, and rough ones by
// arithmetic and bytes for the rest.
type Speeds struct {
	Devices []device.Spec
	Ranks   []int       // per device, the rank that has it; nil: one process has all
	Link    Link        // between ranks; the zero value is DefaultLink
	OpByOp  bool        // segments run op by op; run are such times
	Run     Seconds     // measured times of segments; nil: none is known. So with the others
	Call    CallSeconds // of calls op by op
	Copies  CopySeconds // of copies between devices
	Host    HostSeconds // of copies between a device and the host
	Slow    []float64   // per device, how many times as long as all these say its launches take; nil: none takes longer
}

// Link is the way from a rank to another one. A rank sends one message after the other, and so it receives.
type Link struct {
	Latency   float64 // seconds until the first byte of a message arrives
	BytesPerS float64
}

// DefaultLink is about that of a network of 100 Gbit/s.
var DefaultLink = Link{Latency: 20e-6, BytesPerS: 10e9}

// Seconds is the time for which a message of so many bytes keeps a link busy.
func (l Link) Seconds(bytes int64) float64 { return float64(bytes) / l.BytesPerS }

// Rank is the rank of a device.
func (o *Speeds) Rank(d int) int {
	if o.Ranks == nil {
		return 0
	}
	return o.Ranks[d]
}

// Slowness is how many times as long as planned a device's launches take.
func (o *Speeds) Slowness(d int) float64 {
	if o.Slow == nil {
		return 1
	}
	return o.Slow[d]
}

// Overhead is the rough time from one launch to the next, in seconds.
const Overhead = 5e-6

// opOverhead is the rough time of a call op by op where it was not measured, in seconds.
const opOverhead = 2e-6

// seconds is the rough time of flops on a device.
func seconds(flops int64, spec device.Spec) float64 {
	if spec.FlopsPerSecond <= 0 {
		return float64(flops)
	}
	return float64(flops) / spec.FlopsPerSecond
}

// Work is the arithmetic of one run of some nodes, and the bytes that they read and
// write, each tensor once per node.
type Work struct{ flops, bytes int64 }

// WorkOf is the work of nodes; incomplete if check stops.
func WorkOf(check *stop.Check, nodes []*graph.Node) (w Work) {
	for _, n := range stop.Each(check, nodes) {
		c := n.Cost()
		w.flops += c.Flops
		w.bytes += c.Bytes
	}
	return w
}

// throughMemory is the share of the bytes of nodes that takes time: other bytes pass from
// node to node within a kernel.
const throughMemory = 0.6

// Seconds is the rough time of the work on a device.
func (w Work) Seconds(spec device.Spec) float64 {
	sum := seconds(w.flops, spec)
	if spec.LinkBytesPerS > 0 {
		sum += throughMemory * float64(w.bytes) / spec.LinkBytesPerS
	}
	return sum
}

// MovingSeconds is the rough time of bytes that move for lack of memory.
func MovingSeconds(bytes int64, spec device.Spec) float64 {
	if spec.LinkBytesPerS <= 0 {
		return 0
	}
	return float64(bytes) / spec.LinkBytesPerS
}

// RunSeconds is the time of a segment's graph on a device: as measured, or else from its work.
func (o *Speeds) RunSeconds(check *stop.Check, g *graph.Graph, d int) (sum float64, measured bool) {
	sum, measured = o.plannedSeconds(check, g, d)
	return sum * o.Slowness(d), measured
}

// plannedSeconds is RunSeconds of a device that is not slow.
func (o *Speeds) plannedSeconds(check *stop.Check, g *graph.Graph, d int) (sum float64, measured bool) {
	if o.Run != nil {
		sum, measured = o.Run(d, g)
	}
	switch {
	case o.OpByOp && measured:
		return max(sum, float64(CallsOf(g))*o.callSeconds(d)), true
	case o.OpByOp:
		return o.opSeconds(check, g, d), false
	case !measured:
		sum = WorkOf(check, g.Nodes).Seconds(o.Devices[d])
	}
	return sum, measured
}

// CallsOf counts the ops of a graph that a run op by op calls.
func CallsOf(g *graph.Graph) (n int) {
	for _, x := range g.Nodes {
		if !fuse.IsView(x) {
			n++
		}
	}
	return n
}

// opSeconds is the rough time of a graph op by op. All bytes of an op pass through
// memory. Calls are queued while others run: the longer one of a call and its work counts.
func (o *Speeds) opSeconds(check *stop.Check, g *graph.Graph, d int) (sum float64) {
	call := o.callSeconds(d)
	for i, n := range g.Nodes {
		if fuse.IsView(n) {
			continue
		}
		w := WorkOf(check, g.Nodes[i:i+1])
		w.bytes = int64(float64(w.bytes) / throughMemory)
		sum += max(call, w.Seconds(o.Devices[d]))
	}
	return sum
}

// callSeconds is the time of a call op by op without its work: as measured, or a rough one.
func (o *Speeds) callSeconds(d int) float64 {
	if o.Call != nil {
		if s, ok := o.Call(d); ok {
			return s
		}
	}
	return opOverhead
}

// HostSeconds is the time of a copy between a device and the host: as measured, or else as
// its link gives it.
func (o *Speeds) HostSeconds(d int, bytes int64, out bool) float64 {
	if o.Host != nil {
		if s, ok := o.Host(d, bytes, out); ok {
			return s
		}
	}
	return Overhead + MovingSeconds(bytes, o.Devices[d])
}

// CopySeconds is the time of a copy between devices: as measured, or else as their
// links give it.
func (o *Speeds) CopySeconds(bytes int64, from, to int) float64 {
	if o.Copies != nil {
		if s, ok := o.Copies(from, to, bytes); ok {
			return s
		}
	}
	return linkSeconds(bytes, o.Devices[from], o.Devices[to])
}

// Direct reports whether bytes go from one device to another without passing through
// host memory.
func Direct(from, to device.Spec) bool { return from.Kind == to.Kind && from.PeerCopy && to.PeerCopy }

// linkSeconds is the time of a copy from one device to another: over the slower
// link, and over both where the host lies between.
func linkSeconds(bytes int64, from, to device.Spec) float64 {
	perByte := func(s device.Spec) float64 {
		if s.LinkBytesPerS <= 0 {
			return 0
		}
		return 1 / s.LinkBytesPerS
	}
	a, b := perByte(from), perByte(to)
	if Direct(from, to) {
		return Overhead + float64(bytes)*max(a, b)
	}
	return Overhead + float64(bytes)*(a+b)
}
