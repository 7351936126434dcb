package partition

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// overhead is the rough time from one launch to the next, in seconds.
const overhead = 5e-6

// opOverhead is the rough time of a call op by op where it was not measured, in seconds.
const opOverhead = 2e-6

// seconds is the rough time of flops on a device.
func seconds(flops int64, spec device.Spec) float64 {
	if spec.FlopsPerSecond <= 0 {
		return float64(flops)
	}
	return float64(flops) / spec.FlopsPerSecond
}

// work is the arithmetic of one run of some nodes, and the bytes that they read and
// write, each tensor once per node.
type work struct{ flops, bytes int64 }

func workOf(check *stop.Check, nodes []*graph.Node) (w work) {
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

// seconds is the rough time of the work on a device.
func (w work) seconds(spec device.Spec) float64 {
	sum := seconds(w.flops, spec)
	if spec.LinkBytesPerS > 0 {
		sum += throughMemory * float64(w.bytes) / spec.LinkBytesPerS
	}
	return sum
}

// movingSeconds is the rough time of bytes that move for lack of memory.
func movingSeconds(bytes int64, spec device.Spec) float64 {
	if spec.LinkBytesPerS <= 0 {
		return 0
	}
	return float64(bytes) / spec.LinkBytesPerS
}

// runSeconds is the time of a variant on a device: as measured, or else from its work.
func (o *PlanOptions) runSeconds(check *stop.Check, v *Variant, d int) (sum float64, measured bool) {
	if o.Seconds != nil {
		sum, measured = o.Seconds(d, v.Graph)
	}
	switch {
	case o.OpByOp && measured:
		return max(sum, float64(callsOf(v))*o.callSeconds(d)), true
	case o.OpByOp:
		return o.opSeconds(check, v, d), false
	case !measured:
		sum = workOf(check, v.Graph.Nodes).seconds(o.Devices[d])
	}
	return sum, measured
}

// callsOf counts the ops of a variant that a run op by op calls.
func callsOf(v *Variant) (n int) {
	for _, x := range v.Graph.Nodes {
		if !fuse.IsView(x) {
			n++
		}
	}
	return n
}

// opSeconds is the rough time of a variant op by op. All bytes of an op pass through
// memory. Calls are queued while others run: the longer one of a call and its work counts.
func (o *PlanOptions) opSeconds(check *stop.Check, v *Variant, d int) (sum float64) {
	call := o.callSeconds(d)
	for i, n := range v.Graph.Nodes {
		if fuse.IsView(n) {
			continue
		}
		w := workOf(check, v.Graph.Nodes[i:i+1])
		w.bytes = int64(float64(w.bytes) / throughMemory)
		sum += max(call, w.seconds(o.Devices[d]))
	}
	return sum
}

// callSeconds is the time of a call op by op beside its work: as measured, or a rough one.
func (o *PlanOptions) callSeconds(d int) float64 {
	if o.CallSeconds != nil {
		if s, ok := o.CallSeconds(d); ok {
			return s
		}
	}
	return opOverhead
}

// hostSeconds is the time of a copy between a device and the host: as measured, or else as
// its link gives it.
func (o *PlanOptions) hostSeconds(d int, bytes int64, out bool) float64 {
	if o.HostSeconds != nil {
		if s, ok := o.HostSeconds(d, bytes, out); ok {
			return s
		}
	}
	return overhead + movingSeconds(bytes, o.Devices[d])
}

// copySeconds is the time of a copy between devices: as measured, or else as their
// links give it.
func (o *PlanOptions) copySeconds(bytes int64, from, to int) float64 {
	if o.CopySeconds != nil {
		if s, ok := o.CopySeconds(from, to, bytes); ok {
			return s
		}
	}
	return linkSeconds(bytes, o.Devices[from], o.Devices[to])
}

// direct reports whether bytes go from one device to another without passing through
// host memory.
func direct(from, to device.Spec) bool { return from.Kind == to.Kind && from.PeerCopy && to.PeerCopy }

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
	if direct(from, to) {
		return overhead + float64(bytes)*max(a, b)
	}
	return overhead + float64(bytes)*(a+b)
}
