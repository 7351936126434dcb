package models

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// forward appends the model and gives its output.
func (c *context) forward() *graph.Value {
	if len(c.spec.Layers) == 0 {
		c.fail("the model has no layers: list at least one")
	}
	x := c.b.Input(InputName, batched(c.microbatch, c.spec.Input))
	if c.chunk != nil {
		c.chunk.tokens = x
	}
	if c.chunk == nil {
		x = c.stack(c.spec.Layers, "", c.padded(x))
	} else {
		n := firstAfter(c.spec.Layers)
		x = c.stack(c.spec.Layers[:n], "", x)
		x = c.stack(c.spec.Layers[n:], "", c.narrowed(x))
	}
	c.checkTargets()
	return x
}

// stack applies layers in order. block is the top-level layer that they are in;
// "" for top-level layers.
func (c *context) stack(layers Stack, block string, x *graph.Value) *graph.Value {
	for _, l := range layers {
		if c.b.Err() != nil {
			return x
		}
		x = c.layer(placed(l), block, x)
	}
	return x
}

// layer applies one layer.
func (c *context) layer(n Named, block string, x *graph.Value) *graph.Value {
	t := typeOf(n.Layer)
	ref := &graph.Layer{Index: c.layers, Type: t.name, Name: n.Name, Pos: n.Pos}
	c.layers++
	if ref.Name == "" {
		ref.Name = fmt.Sprintf("%s%d", t.name, ref.Index)
	}
	switch {
	case block != "":
		ref.Block = block
	case n.Block != "":
		ref.Block = n.Block
	default:
		ref.Block = ref.Name
	}
	c.lastBlock = ref.Block
	defer c.b.In(ref)()
	if c.named[ref.Name] {
		c.fail("another layer has that name: give each its own")
		return x
	}
	if !c.accepts(t.takes, x.Meta) {
		return x
	}
	l, err := t.keys(n.Layer)
	if err != nil {
		c.fail("%v", err)
	}
	if err != nil || !c.seesNoPadding(t, l) {
		return x
	}
	c.named[ref.Name] = true
	if c.chunk != nil {
		return c.generated(t, l, x)
	}
	y := c.built(t, l, x)
	c.keepsWidth(y)
	if ref.Name == c.wanted {
		c.see(y)
	}
	return y
}

// built builds a layer. A program's own is checked.
func (c *context) built(t *layerType, l Layer, x *graph.Value) *graph.Value {
	if t.ours {
		return l.Build(&Builder{c.b, c}, x)
	}
	y := c.guarded(func(b *Builder) *graph.Value { return l.Build(b, x) })
	if c.b.Err() != nil {
		return x
	}
	if y == nil || y.Meta.Shape.Rank() == 0 || y.Meta.Shape[0] != c.microbatch {
		c.fail("its function gives %v for %d samples: the first axis of its output must be the samples", y, c.microbatch)
		return x
	}
	return y
}

// see keeps the output of the layer that is wanted. What a layer hands on as it is may
// be the model's input, which is no value that a device computes: it is multiplied by 1.
func (c *context) see(y *graph.Value) {
	switch {
	case c.b.Err() != nil:
		return
	case y.Meta.DType != shape.Float32 || y.Meta.Shape.Rank() == 0 || y.Meta.Shape[0] != c.microbatch:
		c.fail("its output is %v: activations are numbers for each sample", y.Meta)
	case y.Kind != graph.Computed:
		y = c.b.One(ops.Affine{Scale: 1}, y)
	}
	c.seen = y
}

// body applies the layers inside a layer, whose output has positions if x has.
func (c *context) body(layers Stack, x *graph.Value) *graph.Value {
	if len(layers) == 0 {
		c.fail("it has no layers: list at least one")
		return x
	}
	sequence := c.sequence
	y := c.stack(layers, c.b.Layer().Block, x)
	c.sequence = sequence
	return y
}
