package session

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/costs"
)

// SegmentClusters is how a segment is compiled.
type SegmentClusters struct {
	Segment *partition.Segment
	Device  device.ID  // of the first replica
	Cuts    *fuse.Cuts // the ops that the device computes in one pass, and why others are not
	Refused []RefusedOp
	// Compiled and OpByOp are the measured times of a run of the segment, and Call is that
	// of a call op by op, in seconds; 0 where there is none.
	Compiled, OpByOp, Call float64
}

// RefusedOp is an op that a device of the run cannot compute, and so no cluster there has.
type RefusedOp struct {
	Node   *graph.Node
	Device device.ID
	Why    error
}

// Clusters are the clusters of each segment of a full microbatch.
func (s *Session) Clusters() (list []SegmentClusters) {
	times, specs := s.Times.Kept(), s.Planner.Specs
	for i := range s.Plan.Segments {
		seg := &s.Plan.Segments[i]
		d := s.Plan.Stages[seg.Stage].Device
		on, g := s.Devices[d], seg.First.Graph
		x := SegmentClusters{Segment: seg, Device: on.ID(), Cuts: fuse.Cut(g, seg.First.Alias), Refused: s.refusedOps(g, on)}
		if times != nil {
			place := costs.On(specs, d)
			x.Compiled, _ = times.Seconds(costs.SegmentKey(g, false, place))
			x.OpByOp, _ = times.Seconds(costs.SegmentKey(g, true, place))
			x.Call, _ = times.Seconds(costs.CallKey(place))
		}
		list = append(list, x)
	}
	return list
}

// measured is a line with the times that are known; "" if none is.
func (x *SegmentClusters) measured() string {
	var parts []string
	for _, t := range []struct {
		what    string
		seconds float64
	}{{"compiled", x.Compiled}, {"op by op", x.OpByOp}, {"a call op by op", x.Call}} {
		if t.seconds > 0 {
			parts = append(parts, fmt.Sprintf("%s %v", t.what, time.Duration(1e9*t.seconds).Round(10*time.Nanosecond)))
		}
	}
	if parts == nil {
		return ""
	}
	return "    measured: " + strings.Join(parts, ", ") + "\n"
}

// refusedOps lists the ops of a segment that other kinds of devices than its own refuse,
// one device of each kind.
func (s *Session) refusedOps(g *graph.Graph, own device.Device) (list []RefusedOp) {
	asked := []string{own.Spec().Kind}
	for _, d := range s.Devices {
		if slices.Contains(asked, d.Spec().Kind) {
			continue
		}
		asked = append(asked, d.Spec().Kind)
		for _, n := range g.Nodes {
			if err := d.Supports(n); err != nil {
				list = append(list, RefusedOp{n, d.ID(), err})
			}
		}
	}
	return list
}

// String has the measured times, the clusters, a line per sort, and the ops that are in none with the
// reasons.
func (x SegmentClusters) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s: %s in %s\n%s%s", x.Segment.Name, x.Device,
		units.Count(len(x.Segment.First.Graph.Nodes), "node"), units.Count(x.Cuts.Kernels(), "kernel"), x.measured(), x.Cuts)
	if len(x.Refused) > 0 {
		b.WriteString("refused by other devices\n")
	}
	told := map[string]bool{}
	for _, op := range x.Refused {
		line := fmt.Sprintf("        %s by %s: %v\n", op.Node.Op.Kind(), op.Device, op.Why)
		if !told[line] {
			told[line] = true
			b.WriteString(line)
		}
	}
	return b.String()
}
