package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/shape"
)

// Phase is the part of a training step that a node belongs to. Forward and
// Backward run once per microbatch, Update once per step.
type Phase uint8

// The phases, in the order in which they run.
const (
	Forward Phase = iota
	Backward
	Update
)

var phaseNames = [...]string{"forward", "backward", "update"}

// String is the phase's name in lower case.
func (p Phase) String() string { return phaseNames[p] }

// Pos is a line of a config file.
type Pos struct {
	File string
	Line int
}

// String is "file:line", or "" for a zero Pos.
func (p Pos) String() string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Layer is the model layer that a node implements. Nodes point to it, so
// errors, plans and profiles can name it.
type Layer struct {
	Index int    // position in the model, from 0
	Type  string // "dense"
	Name  string // "fc2"; unique in the model, and the prefix of its variables
	Block string // name of the top-level layer that it is in: the unit of partitioning
	Pos   Pos

	Iterations int // of its loops, which are among its nodes; 0 without one
}

// String is `layer 3 (dense "fc2")`.
func (l *Layer) String() string {
	return fmt.Sprintf("layer %d (%s %q)", l.Index, l.Type, l.Name)
}

// Kind is the origin of a value.
type Kind uint8

// The kinds of values.
const (
	Computed Kind = iota // produced by a node
	Input                // fed: the batch, and constants of a microbatch
	Variable             // lives on a device from step to step
	Summed               // the sum of another value over a step's microbatches: see Accum
)

// Role is the purpose of a variable. It decides how the variable is counted, and
// whether it is saved and hashed.
type Role uint8

// The roles of variables.
const (
	NotVariable Role = iota
	Parameter        // trained by the optimizer; saved, hashed, exported
	Statistic        // batchnorm's running averages; saved, hashed, exported
	OptState         // momentum and the like; saved
	Counter          // the step; saved
	Metric           // rings and sums that are read at a boundary; saved, so that a resume between two keeps them
	Cache            // kept from step to step while a text is generated; in no checkpoint
	Average          // moving average of a parameter, which it begins with; saved, and exported in its place: see AverageOf
)

var roleNames = [...]string{"", "parameter", "statistic", "optimizer state", "counter", "metric", "cache", "average"}

// String is the role in words.
func (r Role) String() string { return roleNames[r] }

// Value is a tensor of the graph: its metadata and its origin. Values are
// immutable once the graph is built.
type Value struct {
	ID   int    // index in Graph.Values
	Name string // unique in the graph; the same for every microbatch size
	Meta shape.Meta
	Kind Kind
	Node *Node // the producer of a Computed value
	Out  int   // its number among the producer's outputs

	// For inputs only: it is a constant of the microbatch, resident for the whole
	// run.
	PerMicrobatch bool

	// For variables only.
	Role  Role
	Init  Init     // first contents
	Layer *Layer   // nil for counters and metrics
	Tags  []string // by which parameter groups select: "weight", "bias", "norm", "embedding"
	Range *Range   // the part of another variable that it is; nil if it is whole
}

// Range is consecutive elements of a variable, in row-major order. A plan may cut a
// variable into ranges, each a variable of its own, whose name is the whole one's and
// then "[0:65536]". Users know the whole one.
type Range struct {
	Of   *Value // the whole variable
	From int    // first element; the range's metadata has their number
}

// Whole is the variable that v is a range of, or v itself.
func (v *Value) Whole() *Value {
	if v.Range != nil {
		return v.Range.Of
	}
	return v
}

// The tags of parameters of a model that is trained by an adapter.
const (
	BaseTag    = "base"    // it stays as it is, and is in no checkpoint
	AdapterTag = "adapter" // it is trained
)

// Tagged reports whether a variable, or the one that it is a range of, has a tag.
func (v *Value) Tagged(tag string) bool { return slices.Contains(v.Whole().Tags, tag) }

// Offset is the index of v's first byte in the contents of the whole variable.
func (v *Value) Offset() int64 {
	if v.Range == nil {
		return 0
	}
	return int64(v.Range.From) * int64(v.Meta.DType.Size())
}

// averageSuffix follows a parameter's name in that of its average.
const averageSuffix = "/ema"

// AverageOf is the name of the average of a parameter.
func AverageOf(parameter string) string { return parameter + averageSuffix }

// Averaged is the name of the parameter that v, of the role Average, is the average of; of a
// range, that of the whole one. It is "" where v has another role.
func (v *Value) Averaged() string {
	if v.Role != Average {
		return ""
	}
	return strings.TrimSuffix(v.Whole().Name, averageSuffix)
}

// String is "name f32[2,3]".
func (v *Value) String() string { return v.Name + " " + v.Meta.String() }

// Init is the first contents of a variable. Random fills depend on the run's seed
// and the variable's name.
type Init struct {
	Kind InitKind
	A    float64 // Constant: the value; Uniform: the bound a of [-a,a); Normal: the standard deviation
}

// InitKind selects a fill.
type InitKind uint8

// The fills.
const (
	Zeros InitKind = iota
	Constant
	Uniform
	Normal
)

// Cost is the work of one application of an op.
type Cost struct {
	Flops int64 // arithmetic operations, a multiply-add counted as two
	Bytes int64 // bytes read and written, each tensor once
}

// Op is an operation: pure, stateless, its attributes in exported fields.
// Implementations are small comparable-by-print structs: two ops are the same
// if [OpString] is.
type Op interface {
	// Kind names the operation, "matmul". Devices look kernels up by it.
	Kind() string
	// Infer is the metadata rule: the outputs' metadata from the inputs', or an
	// error in the words of the layer's author. It sees no names or lines.
	Infer(in []shape.Meta) ([]shape.Meta, error)
	// Grad appends the nodes that compute the gradients of n's inputs from dy,
	// those of its outputs; dy[i] is nil if output i has none. It returns one
	// gradient per input, nil if the input has none. Unused nodes are pruned
	// later.
	Grad(b *Builder, n *Node, dy []*Value) []*Value
	// Cost counts arithmetic and memory traffic.
	Cost(in, out []shape.Meta) Cost
}

// Aliaser is implemented by ops whose output may, or must, share an input's
// memory.
type Aliaser interface {
	// Alias returns, per output, the index of the input whose memory it may
	// take over once nothing else reads that input, or -1.
	Alias() []int
}

// OpString is the text of an op with its attributes, "matmul{TransA:false TransB:true BF16:false}".
func OpString(op Op) string { return fmt.Sprintf("%s%+v", op.Kind(), op) }

// Node is one application of an op.
type Node struct {
	ID    int // index in Graph.Nodes of the graph it was built in, before any rewriting
	Op    Op
	In    []*Value
	Out   []*Value
	Phase Phase
	Layer *Layer // nil for nodes of no layer: counters, the loss ring
	Of    *Node  // for Backward: the forward node that it differentiates, or recomputes

	Recomputed  bool // it computes the values of Of a second time: see Recompute
	Conditional bool // it is of a branch, and its values may go unused: NaN is no failure, and devices may skip it: see Needs

	Part *Part // what it computes of the results of another node; nil: it computes all of its own
}

// Part says what a node computes of the results of another one that it stands for, together
// with others: some of the samples, or some of the channels.
type Part struct {
	Of    *Node  // the whole node; nil for one that only moves bytes
	Label string // tells parts of a node apart: "part2"
}

// Whole is the node that n computes a part of, or else n. Where a kernel's bits depend on
// sizes, they must be those of the whole: then parts have its bits.
func (n *Node) Whole() *Node {
	if n.Part != nil && n.Part.Of != nil {
		return n.Part.Of
	}
	return n
}

// String is "softmax(a, b) -> c".
func (n *Node) String() string {
	return fmt.Sprintf("%s(%s) -> %s", OpString(n.Op), names(n.In), names(n.Out))
}

func names(vs []*Value) string {
	s := ""
	for i, v := range vs {
		if i > 0 {
			s += ", "
		}
		s += v.Name
	}
	return s
}

// Assign makes a variable take the value New when the step ends, in place.
type Assign struct {
	Var, New *Value
}

// Accum declares Sum, which the Update phase reads, as the sum of Part over the
// step's microbatches, in their order. Add is the op that adds two parts. A graph
// built for one microbatch has none.
type Accum struct {
	Part, Sum *Value
	Add       Op
}

// Graph is a step, or a segment of one. Nodes are in topological order.
type Graph struct {
	Name    string
	Nodes   []*Node
	Values  []*Value // nil in a segment
	Inputs  []*Value // Input values; of a segment: all values that it reads from outside, in order
	Vars    []*Value
	Outputs []*Value // values that a caller may fetch; of a segment: all values that others read, in order
	Assigns []Assign
	Accums  []Accum

	// Needed lists, per output, guards without which nobody needs it: then it may be whatever was
	// in its memory. A guard whose number the graph neither reads nor makes counts as met.
	// Nil: all outputs are needed.
	Needed [][]Guard
}

// Find is the value of that name; nil if there is none.
func (g *Graph) Find(name string) *Value {
	for _, v := range g.Values {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// Cost sums the cost of nodes.
func (g *Graph) Cost() Cost {
	var c Cost
	for _, n := range g.Nodes {
		nc := n.Cost()
		c.Flops += nc.Flops
		c.Bytes += nc.Bytes
	}
	return c
}

// Cost is the node's cost at its own shapes.
func (n *Node) Cost() Cost { return n.Op.Cost(Metas(n.In), Metas(n.Out)) }

// Metas lists the metadata of values.
func Metas(vs []*Value) []shape.Meta {
	ms := make([]shape.Meta, len(vs))
	for i, v := range vs {
		ms[i] = v.Meta
	}
	return ms
}
