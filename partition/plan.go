package partition

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
)

// Plan is a graph cut into segments. It is immutable and safe for concurrent
// use.
type Plan struct {
	Graph        *graph.Graph // the graph that was cut: with the nodes that recompute values
	Stages       []Stage
	Segments     []Segment // in running order: F by stage ascending, B and then W by stage descending, U by level, then stage
	Transfers    []Transfer
	Microbatches int
	Memory       []Forecast // by device
	Fewer        *Fewer     // nil where there are as many stages as asked for
	// Bucket tells plans of one program apart whose samples have different shapes: see
	// [Plan.RebindBucket]. 0: the plan that was made first.
	Bucket int

	options  PlanOptions
	grain    grain
	launches int // of a step
	cut      cut
	place    *placement
	idx      *index
	whole    placedGraph // before updates were cut into ranges
}

// placedGraph is a graph's index and where its nodes are.
type placedGraph struct {
	idx   *index
	place *placement
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

// Segment is nodes of one stage that a device compiles and launches as one.
type Segment struct {
	ID      int    // index in Plan.Segments
	Name    string // "s1.F", "s1.BU", "s0.U1", and of a piece "s1.F:block0"
	Piece   string // its label; "" if the segment is all nodes of its passes
	Stage   int
	Pass    schedule.Kind // when it runs: the first pass of the nodes that it is a piece of
	Passes  Passes        // of its nodes
	Replica int           // that runs it, where Pass is Update; all run other passes
	Level   int           // where Pass is Update, from 0

	// First begins the sums over microbatches that the segment writes, Later adds
	// to them. First runs for a step's first microbatch, and Later for the others;
	// by a tree, First for each second one. They are the same without sums. Later.In begins with all of First.In, and
	// both have the same Out values in the same order.
	First, Later Variant
	// Reduce adds the right of two partial sums to the left, for each sum that the
	// segment writes, left and right in turn in In. Its Graph is nil unless sums are
	// made by a tree.
	Reduce Variant
	// ReduceOn is Reduce by replica, of the sums and ranges of sums that end there;
	// nil without ShardOptimizer. It makes sums over more than one replica.
	ReduceOn []Variant
	// Split copies each range that a replica updates out of the sums that the segment
	// writes; its Graph is nil if there is none. It ends a replica's part of a sum.
	Split Variant
}

// Variant is a segment as a device compiles it. Graph.Inputs[i] belongs to
// In[i], Graph.Outputs[i] to Out[i].
type Variant struct {
	Graph   *graph.Graph
	In, Out []Slot
	// Alias[i] is the input whose memory output i takes over, or -1. Such a
	// pair has one lease between them: both slots are ReadWrite and have the
	// same Value.
	Alias []int
}

// Slot ties an input or output of a segment to the tensor that residency
// knows.
type Slot struct {
	// Value is the identity to look up: for an assigned output the variable,
	// for an accumulated one the sum, otherwise the value itself.
	Value *graph.Value
	Mode  Mode
}

// Mode is how a segment uses a slot's tensor.
type Mode uint8

// The modes.
const (
	Read Mode = iota
	Write
	ReadWrite
)

var modeNames = [...]string{"read", "write", "read-write"}

// String is the mode in lower case.
func (m Mode) String() string { return modeNames[m] }

// Rate is how often something moves.
type Rate uint8

// The rates.
const (
	PerMicrobatch Rate = iota
	PerStep
	PerRun
)

var rateNames = [...]string{"microbatch", "step", "run"}

// String is the period: "microbatch".
func (r Rate) String() string { return rateNames[r] }

// Transfer is a value that one stage makes or owns and another reads. On
// stages that share a device nothing moves.
type Transfer struct {
	Value    *graph.Value
	From, To int // stages
	Bytes    int64
	Rate     Rate
	Local    bool // both stages are on one device
}

// PerMicrobatch reports whether a value has an instance for each microbatch of
// a step; otherwise it has one for the step.
func (p *Plan) PerMicrobatch(v *graph.Value) bool { return perMicrobatch(v) }

// Usage is the usage that a value's memory counts as: Weight for parameters and
// statistics, Cache for caches, OptState for all other variables, Input, Grad for values that the
// update reads, Activation for the rest.
func (p *Plan) Usage(v *graph.Value) device.Usage { return p.idx.usage(v) }
