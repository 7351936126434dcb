package models

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// context is the state of building one graph, which all its layers share.
type context struct {
	b          *graph.Builder
	spec       Spec
	microbatch int // samples in a microbatch
	batch      int // samples in the step; valid if training
	training   bool
	vars       []*graph.Value // in order of declaration
	byName     map[string]*graph.Value
	named      map[string]bool // names of the layers so far
	counts     map[string]int  // of layers without a name in other layers, by type
	layers     int             // number of the layers so far
	lastBlock  string          // of the newest layer
	updates    []func()        // append the nodes of layers to the Update phase
	chunk      *chunk          // of a graph that generates; else nil
	lengths    *graph.Value    // the value LengthName; nil without Spec.Lengths
	positions  *graph.Value    // the value PositionName; nil where a sample is one sequence
	unpadded   *graph.Value    // the input without its padding; nil without lengths
	sequence   bool            // the newest value has an axis of positions with padding; valid with lengths
	step, base *graph.Value    // the values StepName and BaseName; nil until they are declared
	output     *graph.Value    // of the model, as the loss compares it; nil until it does
	target     *graph.Value    // of the loss, without padding; nil until the loss declares it
	wanted     string          // name of the layer whose output seen becomes; "": none
	seen       *graph.Value
	products   []string // names of the products that may have an adapter; valid with Spec.LoRA
	hit        []bool   // the patterns of Spec.LoRA that match one
}

// chunk is the state of building a graph that generates.
type chunk struct {
	GenerateSize
	tokens *graph.Value // the input
	extent *graph.Value // nil until a layer needs it
}

// mistake is an ErrModel whose text has no prefix: the builder writes the name
// of the layer before it.
type mistake struct{ text string }

// Error is the text.
func (m mistake) Error() string { return m.text }

// Unwrap makes it ErrModel.
func (m mistake) Unwrap() error { return ErrModel }

// fail reports a mistake in the current layer.
func (c *context) fail(format string, args ...any) {
	c.b.Fail(mistake{fmt.Sprintf(format, args...)})
}

// batched is the metadata of n samples.
func batched(n int, m shape.Meta) shape.Meta {
	return shape.Meta{DType: m.DType, Shape: append(shape.Of(n), m.Shape...)}
}

// sample is the metadata of one sample of a batch x, whose axes configs count
// from 0. x must not be the result of a failed builder.
func sample(x *graph.Value) shape.Meta {
	return shape.Meta{DType: x.Meta.DType, Shape: x.Meta.Shape[1:]}
}

// param declares a trained variable of the current layer.
func (c *context) param(suffix string, dims []int, init graph.Init, tags ...string) *graph.Value {
	return c.variable(suffix, dims, graph.Parameter, init, tags...)
}

// matrix is param for a weight [dims] that products, by matmul, and lookups alone read. In a base it
// is stored as [Spec.Frozen] says.
func (c *context) matrix(suffix string, dims []int, init graph.Init, tags ...string) *graph.Value {
	m := shape.F32(dims...)
	if c.spec.Frozen != 0 {
		m.DType = c.spec.Frozen
	}
	return c.declare(suffix, m, graph.Parameter, init, tags...)
}

// variable declares a variable [dims] of the current layer.
func (c *context) variable(suffix string, dims []int, role graph.Role, init graph.Init, tags ...string) *graph.Value {
	return c.declare(suffix, shape.F32(dims...), role, init, tags...)
}

// declare declares a variable of the current layer. byName has the average of a parameter
// under the parameter's name.
func (c *context) declare(suffix string, m shape.Meta, role graph.Role, init graph.Init, tags ...string) *graph.Value {
	name := c.b.Layer().Name + "." + suffix
	declared := name
	switch {
	case role != graph.Parameter:
	case c.spec.LoRA != nil && !slices.Contains(tags, graph.AdapterTag):
		tags = append(slices.Clone(tags), graph.BaseTag)
	case !c.training && c.spec.Averaged != nil && c.spec.Averaged(name):
		declared, role = graph.AverageOf(name), graph.Average
	}
	v := c.b.Var(declared, m, role, init, tags...)
	c.vars = append(c.vars, v)
	c.byName[name] = v
	return v
}

// checkRoom refuses parameters that take more than room bytes; 0 is no limit.
func (c *context) checkRoom(room int64) error {
	e := &TooLargeError{Room: room}
	bytes := map[*graph.Layer]int64{}
	for _, v := range c.vars {
		if v.Role != graph.Parameter {
			continue
		}
		n := min(v.Meta.Bytes(), math.MaxInt64-e.Parameters) // the sum stops at the largest int64
		e.Parameters += n
		if bytes[v.Layer] += n; bytes[v.Layer] > e.Bytes {
			e.Largest, e.Bytes = v.Layer, bytes[v.Layer]
		}
	}
	if room == 0 || e.Parameters <= room || c.b.Err() != nil {
		return nil
	}
	return e
}

// fewRows is the most rows of x for which a product of a graph that generates reads a stored w as it lies: it would take
// most of its time to read that from memory, and 2 or 4 times as long to read the float32 numbers.
const fewRows = 16

// matmul is x·w in the model's precision. A transposed w is stored as [out,in]. Of more than a few rows, and where graphs of
// all sizes of a batch have the same nodes, as all do that do not generate, each product widens a w that is stored otherwise
// for itself, so that the float32 numbers are in memory during that product alone.
func (c *context) matmul(x, w *graph.Value, transposed bool) *graph.Value {
	if w.Meta.DType.Stored() && (c.chunk == nil || x.Meta.Elems() > fewRows*x.Meta.Shape.Dim(-1)) {
		w = ops.CastTo(c.b, w, "f32")
	}
	return c.b.One(ops.MatMul{TransB: transposed, BF16: c.spec.BF16}, x, w)
}
