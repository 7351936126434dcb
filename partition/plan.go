package partition

import (
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition/cut"
	"github.com/berth-ml/berth/partition/forecast"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/segment"
)

// Plan is a graph cut into segments. It is immutable and safe for concurrent
// use.
type Plan struct {
	Graph        *graph.Graph // the graph that was cut: with the nodes that recompute values
	Stages       []Stage
	Segments     []segment.Segment // in running order: F by stage ascending, B and then W by stage descending, U by level, then stage
	Transfers    []segment.Transfer
	Microbatches int
	Memory       []forecast.Forecast // by device
	Fewer        *cut.Fewer          // nil where there are as many stages as asked for
	// Bucket tells plans of one program apart whose samples have different shapes: see
	// [Plan.RebindBucket]. 0: the plan that was made first.
	Bucket int

	options  PlanOptions
	grain    segment.Grain
	launches int // of a step
	cut      cut.Cut
	place    *place.Placement
	idx      *nodes.Index
	whole    placedGraph // before updates were cut into ranges
}

// placedGraph is a graph's index and where its nodes are.
type placedGraph struct {
	idx   *nodes.Index
	place *place.Placement
}

// Stage is a partition in pipeline order.
type Stage struct {
	Index      int
	Device     int // index in PlanOptions.Devices
	Blocks     []string
	Layers     []*graph.Layer          // by model position
	Parameters int64                   // elements of the parameters that live here
	Flops      int64                   // per microbatch, F and B
	Recomputed int64                   // of these, in nodes that compute a value a second time
	BytesIn    int64                   // per microbatch, read from other stages
	BytesOut   int64                   // per microbatch, read by other stages, once per reader
	Memory     [device.NumUsages]int64 // bytes by its values alone, for choosing a cut; Plan.Memory is what a step takes
	Cause      string                  // why these blocks are here
}

// PerMicrobatch reports whether a value has an instance for each microbatch of
// a step; otherwise it has one for the step.
func (p *Plan) PerMicrobatch(v *graph.Value) bool { return nodes.PerMicrobatch(v) }

// Usage is the usage that a value's memory counts as: Weight for parameters and
// statistics, Cache for caches, OptState for all other variables, Input, Grad for values that the
// update reads, Activation for the rest.
func (p *Plan) Usage(v *graph.Value) device.Usage { return p.idx.Usage(v) }

// AnyTight reports whether the memory of some device is below the plan's peak there.
func (p *Plan) AnyTight() bool {
	return slices.ContainsFunc(p.Memory, func(f forecast.Forecast) bool { return f.Tight() })
}
