package models

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// context is what the layers of one graph share while it is built.
type context struct {
	b          *graph.Builder
	spec       Spec
	microbatch int // samples in a microbatch
	batch      int // samples in the step
	training   bool
	vars       []*graph.Value // in order of declaration
	byName     map[string]*graph.Value
	layers     int
	last       string   // the top-level block of the newest layer
	updates    []func() // what layers add to the Update phase
	step, base *graph.Value
	target     *graph.Value
}

func newContext(name string, s Spec, microbatches, microbatch int) *context {
	return &context{
		b: graph.NewBuilder(name, microbatches), spec: s, microbatch: microbatch,
		byName: map[string]*graph.Value{},
	}
}

// batched is a sample's metadata with the batch in front.
func batched(n int, m shape.Meta) shape.Meta {
	return shape.Meta{DType: m.DType, Shape: append(shape.Of(n), m.Shape...)}
}

func (c *context) forward() *graph.Value {
	x := c.b.Input(InputName, batched(c.microbatch, c.spec.Input))
	return c.run(c.spec.Layers, "", x)
}

// run applies layers in order; block is the top-level layer they stand in.
func (c *context) run(layers []Layer, block string, x *graph.Value) *graph.Value {
	for i := range layers {
		if c.b.Err() != nil {
			return x
		}
		x = c.layer(&layers[i], block, x)
	}
	return x
}

func (c *context) layer(l *Layer, block string, x *graph.Value) *graph.Value {
	ref := &graph.Layer{Index: c.layers, Type: l.Type, Name: l.Name, Pos: l.Pos}
	c.layers++
	if ref.Name == "" {
		ref.Name = fmt.Sprintf("%s%d", l.Type, ref.Index)
	}
	switch {
	case block != "":
		ref.Block = block
	case l.Block != "":
		ref.Block = l.Block
	default:
		ref.Block = ref.Name
	}
	c.last = ref.Block
	defer c.b.In(ref)()
	build, ok := builders[l.Type]
	if !ok {
		c.b.Fail(fmt.Errorf("%w: no layer type %q", ErrModel, l.Type))
		return x
	}
	return build(c, l, x)
}

// param declares a trained variable of the current layer.
func (c *context) param(suffix string, dims []int, init graph.Init, tags ...string) *graph.Value {
	return c.variable(suffix, dims, graph.Parameter, init, tags...)
}

func (c *context) variable(suffix string, dims []int, role graph.Role, init graph.Init, tags ...string) *graph.Value {
	name := c.b.Layer().Name + "." + suffix
	v := c.b.Var(name, shape.F32(dims...), role, init, tags...)
	c.vars = append(c.vars, v)
	c.byName[name] = v
	return v
}

// dropout drops with probability p while training.
func (c *context) dropout(x *graph.Value, p float64) *graph.Value {
	if !c.training || p == 0 {
		return x
	}
	return c.b.One(ops.Dropout{P: p, Seed: c.spec.Seed, ID: c.id()}, x, c.step, c.sampleBase())
}

// id is a number for the current layer's random choices that depends on its
// name alone, so that no rewriting or staging changes the mask.
func (c *context) id() uint64 {
	h := fnv.New64a()
	h.Write([]byte(c.b.Layer().Name))
	return h.Sum64()
}

// sampleBase is the index in the batch of the microbatch's first sample.
func (c *context) sampleBase() *graph.Value {
	if c.base == nil {
		c.base = c.b.MicrobatchConstant(BaseName, shape.I32())
	}
	return c.base
}

// fail reports a mistake in the current layer.
func (c *context) fail(format string, args ...any) {
	c.b.Fail(fmt.Errorf("%w: "+format, append([]any{ErrModel}, args...)...))
}

// loss appends the loss of the model's output against the target: its sum over
// terms, and the number of right answers (nil for regression).
func (c *context) loss(logits *graph.Value) (loss, correct *graph.Value) {
	defer c.b.In(c.lossLayer())()
	c.target = c.b.Input(TargetName, batched(c.microbatch, c.spec.Target))
	if err := c.checkTarget(logits.Meta, c.target.Meta); err != nil {
		c.b.Fail(err)
		return logits, nil
	}
	switch c.spec.Loss {
	case "cross_entropy":
		loss = c.b.One(ops.CrossEntropy{}, logits, c.target)
		correct = c.b.One(ops.Correct{}, logits, c.target)
	case "mse":
		loss = c.b.One(ops.MSE{}, logits, c.target)
	case "bce":
		loss = c.b.One(ops.BCE{}, logits, c.target)
		correct = c.b.One(ops.BinaryCorrect{}, logits, c.target)
	default:
		c.fail("no loss %q: there are cross_entropy, mse and bce", c.spec.Loss)
		return logits, nil
	}
	loss = c.b.One(ops.CheckFinite{}, loss)
	return loss, correct
}

// lossLayer stands for the loss in errors and plans; it belongs to the last
// block.
func (c *context) lossLayer() *graph.Layer {
	l := &graph.Layer{Index: c.layers, Type: "loss", Name: c.spec.Loss, Block: c.last}
	if n := len(c.spec.Layers); n > 0 {
		l.Pos = c.spec.Layers[n-1].Pos
	}
	return l
}

func (c *context) checkTarget(out, target shape.Meta) error {
	want := target.Shape
	kind := shape.Float32
	if c.spec.Loss == "cross_entropy" {
		kind = shape.Int32
		if out.Shape.Rank() == 0 {
			return fmt.Errorf("%w: the model's output is a scalar", ErrModel)
		}
		out.Shape = out.Shape[:out.Shape.Rank()-1]
	}
	if target.DType != kind {
		return fmt.Errorf("%w: loss %s needs %v targets, the data has %v: choose another loss", ErrModel, c.spec.Loss, kind, target.DType)
	}
	if !out.Shape.Equal(want) {
		return fmt.Errorf("%w: the model's output has shape %v a batch, the targets %v", ErrModel, out.Shape, want)
	}
	return nil
}

// finishStep appends what a step does besides training: running statistics,
// the rings that collect its loss, and its counter.
func (c *context) finishStep(z Size, loss, correct *graph.Value, terms int) {
	if c.b.Err() != nil {
		return
	}
	defer c.b.InPhase(graph.Update)()
	for _, f := range c.updates {
		f()
	}
	c.ring(LossRing, z.Ring, loss, terms)
	if correct != nil {
		c.ring(CorrectRing, z.Ring, correct, terms)
	}
	c.b.Assign(c.step, c.b.One(ops.Increment{}, c.step))
}

// ring writes the mean over terms of x into the step's place of a ring.
func (c *context) ring(name string, length int, x *graph.Value, terms int) {
	v := c.b.Var(name, shape.F32(max(1, length)), graph.Metric, graph.Init{})
	x = c.b.Accumulate(x, ops.AddOp)
	c.b.Assign(v, c.b.One(ops.RingWrite{Scale: 1 / float64(terms)}, v, c.step, x))
}

// addTo adds x to a metric variable.
func (c *context) addTo(name string, x *graph.Value) {
	v := c.b.Var(name, shape.F32(), graph.Metric, graph.Init{})
	c.b.Assign(v, ops.Add(c.b, v, x))
}

// answer turns logits into what predict reports.
func (c *context) answer(logits *graph.Value) *graph.Value {
	switch c.spec.Loss {
	case "cross_entropy":
		return ops.SoftmaxOf(c.b, logits)
	case "bce":
		return ops.Sigmoid(c.b, logits)
	}
	return logits
}

// LayerTypes lists the types of layers in alphabetical order.
func LayerTypes() []string {
	var ts []string
	for t := range builders {
		ts = append(ts, t)
	}
	slices.Sort(ts)
	return ts
}
