package models

import (
	"fmt"
	"hash/fnv"
	"math"
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
	named      map[string]bool // the layers so far
	layers     int
	last       string   // the top-level block of the newest layer
	updates    []func() // what layers add to the Update phase
	step, base *graph.Value
}

func newContext(name string, s Spec, microbatches, microbatch int) *context {
	return &context{
		b: graph.NewBuilder(name, microbatches), spec: s, microbatch: microbatch,
		byName: map[string]*graph.Value{}, named: map[string]bool{},
	}
}

// batched is a sample's metadata with the batch in front.
func batched(n int, m shape.Meta) shape.Meta {
	return shape.Meta{DType: m.DType, Shape: append(shape.Of(n), m.Shape...)}
}

func (c *context) forward() *graph.Value {
	if len(c.spec.Layers) == 0 {
		c.fail("the model has no layers: list at least one")
	}
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
	t, ok := types[l.Type]
	switch {
	case !ok:
		c.fail("no layer type %q: there are %s", l.Type, listed(types))
	case c.named[ref.Name]:
		c.fail("another layer has that name: give each its own")
	case c.accepts(t.takes, x.Meta):
		c.named[ref.Name] = true
		return t.build(c, l, x)
	}
	return x
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

// fit refuses parameters that take more than room bytes, if that is not 0.
func (c *context) fit(room int64) error {
	e := &TooLargeError{Room: room}
	bytes := map[*graph.Layer]int64{}
	for _, v := range c.vars {
		if v.Role != graph.Parameter {
			continue
		}
		n := min(v.Meta.Bytes(), math.MaxInt64-e.Parameters) // no sum is more than there is a number for
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

// loss appends the loss of the model's output against the target: its sum over
// terms, and the number of right answers (nil for regression).
func (c *context) loss(logits *graph.Value) (loss, correct *graph.Value) {
	if c.b.Err() != nil {
		return logits, nil
	}
	defer c.b.In(c.lossLayer())()
	target := c.b.Input(TargetName, batched(c.microbatch, c.spec.Target))
	if !c.comparable(logits) {
		return logits, nil
	}
	switch c.spec.Loss {
	case "cross_entropy":
		loss = c.b.One(ops.CrossEntropy{}, logits, target)
		correct = c.b.One(ops.Correct{}, logits, target)
	case "mse":
		loss = c.b.One(ops.MSE{}, logits, target)
	case "bce":
		loss = c.b.One(ops.BCE{}, logits, target)
		correct = c.b.One(ops.BinaryCorrect{}, logits, target)
	}
	loss = c.b.One(ops.CheckFinite{}, loss)
	return loss, correct
}

// lossLayer stands for the loss in errors and plans; it belongs to the last
// block.
func (c *context) lossLayer() *graph.Layer {
	end := c.spec.Layers[len(c.spec.Layers)-1]
	return &graph.Layer{Index: c.layers, Type: "loss", Name: c.spec.Loss, Block: c.last, Pos: end.Pos}
}

// comparable reports whether the loss is known and can compare the model's
// output with the targets, and fails if not.
func (c *context) comparable(logits *graph.Value) bool {
	out, target := sample(logits), c.spec.Target
	given, wanted := out.Shape, "that shape"
	classes := c.spec.Loss == "cross_entropy"
	if classes {
		given, wanted = given[:max(0, given.Rank()-1)], "that shape and, last, an axis of classes"
	}
	switch {
	case !slices.Contains([]string{"cross_entropy", "mse", "bce"}, c.spec.Loss):
		c.fail("no loss %q: there are cross_entropy, mse and bce", c.spec.Loss)
	case classes != (target.DType == shape.Int32):
		c.fail("the targets are %v: cross_entropy takes classes (i32), mse and bce take numbers (f32); choose the loss that fits", target)
	case out.DType != shape.Float32, classes && out.Shape.Rank() == 0, !given.Equal(target.Shape):
		c.fail("the model gives %v a sample for targets %v: its last layers must give f32 of %s", out, target, wanted)
	case classes && out.Shape.Dim(-1) < c.spec.Classes:
		c.fail("the model tells %d classes apart, the data has %d: give its last layer %d outputs", out.Shape.Dim(-1), c.spec.Classes, c.spec.Classes)
	default:
		return true
	}
	return false
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
