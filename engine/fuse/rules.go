package fuse

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// Class says how an op goes through its data, which decides what it can be
// fused with.
type Class uint8

// The classes.
const (
	Solo  Class = iota // reads or writes in an order of its own
	Map                // element i of the output takes element i of each operand, perhaps stretched
	Head               // makes its first output tile by tile, each of which can be gone on with
	Rows               // goes row by row, with others of its class that go over the same rows
	Small              // goes with others of its class that do not depend on it, where it has little to do
	Sum                // sums whole rows, in an order that does not depend on when each is there
	View               // moves no bytes
)

// rule is what the table knows of an op.
type rule struct {
	class Class
	why   string // an op takes nothing tile by tile
	row   int    // of a head: how many dimensions make a row of the frame
	whole bool   // of a head: its tiles are whole rows
	lean  bool   // of a head: its tiles are small parts of rows, of which other memory should not be read or written
}

// rules is the table of ops by kind.
var rules = map[string]rule{
	"matmul":          {Head, "reads its operands many times", 1, false, true},
	"conv2d":          {Head, "reads windows", 2, false, false},
	"conv2d_grad_x":   {Head, "reads windows", 2, false, false},
	"max_pool2d_grad": {Head, "writes windows", 2, true, false},
	"avg_pool2d_grad": {Head, "writes windows", 2, true, false},
	"layer_norm":      {Head, "goes over each row several times", 1, true, false},
	"layer_norm_grad": {Head, "goes over each row several times", 1, true, false},
	"gather":          {Head, "reads rows by number", 1, true, false},
	"scatter_add":     {Head, "reads rows by number", 1, true, false},

	"reshape": {class: View},

	"conv2d_grad_w":         {why: "reads windows"},
	"max_pool2d":            {why: "reads windows"},
	"avg_pool2d":            {why: "reads windows"},
	"reduce_sum":            {why: "is known only at the end of a sum"},
	"reduce_mean":           {why: "is known only at the end of a sum"},
	"reduce_max":            {why: "is known only after the last element"},
	"reduce_max_grad":       {why: "looks for the first of equals"},
	"sum_to":                {class: Sum},
	"sum_squares":           {why: "is known only at the end of a sum"},
	"transpose":             {why: "moves elements"},
	"slice":                 {why: "moves elements"},
	"slice_grad":            {why: "moves elements"},
	"concat":                {why: "moves elements"},
	"softmax":               {why: "goes over each row several times"},
	"softmax_grad":          {why: "goes over each row several times"},
	"log_softmax":           {why: "goes over each row several times"},
	"log_softmax_grad":      {why: "goes over each row several times"},
	"cross_entropy":         {class: Rows, why: "reads targets, which may be wrong"},
	"cross_entropy_grad":    {class: Rows, why: "reads targets, which may be wrong"},
	"correct":               {class: Rows, why: "reads targets, which may be wrong"},
	"mse":                   {why: "is known only at the end of a sum"},
	"bce":                   {why: "is known only at the end of a sum"},
	"binary_correct":        {why: "is known only at the end of a sum"},
	"check_finite":          {why: "ends the step where it fails"},
	"batch_norm":            {why: "goes over each channel several times"},
	"batch_norm_grad":       {why: "goes over each channel several times"},
	"causal_attention":      {why: "reads other rows"},
	"causal_attention_grad": {why: "reads other rows"},
	"batch_norm_eval":       {why: "goes over each channel"},
	"fill":                  {why: "is the same in every step"},
	"sgd":                   {class: Small, why: "is one pass already"},
	"adam":                  {class: Small, why: "is one pass already"},
	"clip_factor":           {why: "is one number"},
	"learning_rate":         {why: "is one number"},
	"increment":             {why: "is one number"},
	"ring_write":            {why: "is one number"},
}

// mapKinds are the kinds of class Map.
var mapKinds = []string{
	"add", "sub", "mul", "div", "affine", "lerp", "broadcast_to", "dropout", "mse_grad", "bce_grad",
	"neg", "relu", "gelu_tanh", "gelu_erf", "silu", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "square", "abs",
	"relu_grad", "gelu_tanh_grad", "gelu_erf_grad", "silu_grad", "sigmoid_grad", "tanh_grad", "exp_grad", "log_grad",
	"sqrt_grad", "rsqrt_grad", "square_grad", "abs_grad",
}

func init() {
	for _, kind := range mapKinds {
		rules[kind] = rule{class: Map}
	}
}

// item is a node as the pass sees it.
type item struct {
	node   *graph.Node
	at     int // its position in the graph
	rule   rule
	frame  Frame
	after  []*item // what must run after it
	before []*item // what must run before it
	group  *group

	// A walk over after numbers items: what it meets first by way of this one
	// has numbers from pre to before end, and so runs after it.
	pre, end int
}

// newItem applies the table. A node that its class does not fit computes alone.
func newItem(n *graph.Node, at int) *item {
	it := &item{node: n, at: at, rule: rules[n.Op.Kind()]}
	if it.rule == (rule{}) {
		it.alone("has no rule")
	}
	switch it.rule.class {
	case Map:
		it.asMap()
	case Head:
		s := n.Out[0].Meta.Shape
		it.frame = Frame{Elems: s.Elems(), rows: s[len(s)-it.rule.row:].Elems()}
		if n.Out[0].Meta.DType != shape.Float32 {
			it.alone(fmt.Sprintf("is of %v", n.Out[0].Meta.DType))
		}
	case Sum:
		it.asSum()
	case Rows:
		x := n.In[0].Meta.Shape
		it.frame = Frame{Elems: x.Elems(), rows: x.Dim(-1)}
	case Small:
		it.frame.Elems = n.Out[0].Meta.Elems()
	}
	if it.frame.Elems == 0 && it.rule.class != Solo {
		it.alone("has no elements")
	}
	return it
}

func (it *item) alone(why string) { it.rule = rule{why: why} }

// asMap finds how the operands lie in the frame of the output.
func (it *item) asMap() {
	out := it.node.Out[0].Meta
	it.frame = Frame{Elems: out.Elems()}
	if out.DType != shape.Float32 {
		it.alone(fmt.Sprintf("is of %v", out.DType))
		return
	}
	for _, v := range it.node.In {
		s, ok := SpanOf(v.Meta.Shape, out.Shape)
		if ok {
			it.frame, ok = it.frame.with(s)
		}
		if !ok {
			it.alone(fmt.Sprintf("stretches %v to %v, which is not by rows", v.Meta.Shape, out.Shape))
			return
		}
	}
}

// Kinds lists the kinds of ops that have a rule, in alphabetical order.
func Kinds() []string { return slices.Sorted(maps.Keys(rules)) }

// mostSummed is the most elements of a row that is summed while in the cache.
const mostSummed = 1 << 12

// asSum finds the rows that are summed: the output has one number for each, or
// for each of some that are apart by the same distance.
func (it *item) asSum() {
	in := it.node.In[0].Meta
	s, ok := SpanOf(it.node.Out[0].Meta.Shape, in.Shape)
	if !ok || s.Inner == 1 || s.Inner > mostSummed || s.Count <= 1 {
		it.alone("is known only at the end of a sum")
		return
	}
	it.frame = Frame{Elems: in.Elems(), rows: s.Inner}
}
