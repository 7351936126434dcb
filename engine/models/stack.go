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
	if c.chunk == nil {
		x = c.padded(x)
		return c.stack(c.spec.Layers, "", x)
	}
	n := firstAfter(c.spec.Layers)
	x = c.stack(c.spec.Layers[:n], "", x)
	return c.stack(c.spec.Layers[n:], "", c.narrowed(x))
}

// stack applies layers in order. block is the top-level layer that they are in;
// "" for top-level layers.
func (c *context) stack(layers []Layer, block string, x *graph.Value) *graph.Value {
	for i := range layers {
		if c.b.Err() != nil {
			return x
		}
		x = c.layer(&layers[i], block, x)
	}
	return x
}

// layer applies one layer.
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
	c.lastBlock = ref.Block
	defer c.b.In(ref)()
	t, ok := c.types[l.Type]
	switch {
	case !ok:
		c.fail("no layer type %q: there are %s", l.Type, listed(c.types))
	case c.named[ref.Name]:
		c.fail("another layer has that name: give each its own")
	case c.accepts(t.takes, x.Meta) && c.seesNoPadding(l):
		c.named[ref.Name] = true
		if c.chunk != nil {
			return c.generated(l, t, x)
		}
		y := t.build(c, l, x)
		c.keepsWidth(y)
		if ref.Name == c.wanted {
			c.see(y)
		}
		return y
	}
	return x
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

// body applies the layers inside the layer l, whose output has positions if x has.
func (c *context) body(l *Layer, x *graph.Value) *graph.Value {
	if len(l.Body) == 0 {
		c.fail("it has no layers: list at least one")
		return x
	}
	sequence := c.sequence
	y := c.stack(l.Body, c.b.Layer().Block, x)
	c.sequence = sequence
	return y
}
