package models

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// loss appends the loss of the model's output against the target. It gives the
// loss summed over terms, and the number of right answers, which is nil for
// regression.
func (c *context) loss(logits *graph.Value) (loss, correct *graph.Value) {
	if c.b.Err() != nil {
		return logits, nil
	}
	defer c.b.In(c.endLayer("loss", c.spec.Loss))()
	meta := c.spec.Target
	if c.spec.Soft && c.training {
		meta = shape.F32(c.spec.Classes)
	}
	target := c.b.Input(TargetName, batched(c.microbatch, meta))
	c.target = target
	if !c.comparable(logits) || c.applied(logits) {
		return logits, nil
	}
	t := losses[c.spec.Loss]
	c.output, c.target = c.counted(logits, target)
	loss = t.loss(c, c.output, c.target)
	if t.correct != nil {
		correct = t.correct(c, c.output, c.target)
	}
	loss = c.b.One(ops.CheckFinite{}, loss)
	return loss, correct
}

// weight is the sum of the weights of the microbatch's targets, f32[]; nil if each counts 1.
func (c *context) weight() *graph.Value {
	t := losses[c.spec.Loss]
	if t.weight == nil || c.b.Err() != nil {
		return nil
	}
	defer c.b.In(c.endLayer("loss", c.spec.Loss))()
	return t.weight(c, c.output, c.target)
}

// endLayer stands in errors and plans for nodes after the newest layer, such as the
// loss. It belongs to the newest block.
func (c *context) endLayer(kind, name string) *graph.Layer {
	end := placed(c.spec.Layers[len(c.spec.Layers)-1])
	return &graph.Layer{Index: c.layers, Type: kind, Name: name, Block: c.lastBlock, Pos: end.Pos}
}

// comparable reports whether the loss is known and can compare the model's
// output with the targets; if not, it fails.
func (c *context) comparable(logits *graph.Value) bool {
	t, known := losses[c.spec.Loss]
	out, target := sample(logits), c.spec.Target
	given, wanted := out.Shape, "that shape"
	if t.classes {
		given, wanted = given[:max(0, given.Rank()-1)], "that shape and, last, an axis of classes"
	}
	switch {
	case !known:
		c.fail("no loss %q: there are %s", c.spec.Loss, listed(losses))
	case t.classes != (target.DType == shape.Int32):
		c.fail("the targets are %v, and loss %s takes %s: choose the loss that fits", target, c.spec.Loss, t.targets())
	case c.lengths != nil && !t.pads:
		c.fail("loss %s cannot leave out the padding of sequences of different lengths: use another one, such as cross_entropy or mse", c.spec.Loss)
	case c.lengths != nil && c.sequence != c.spec.PerPosition():
		c.fail("the model's output for a sample is %v, but its target is %v: if each sequence has one target, add a mean over axes [0], or set last: true of an lstm or gru; if each position has one, leave these out", out, target)
	case c.spec.Soft && (c.spec.Loss != "cross_entropy" || c.spec.ClassWeights != nil || target.Shape.Rank() > 0 || c.lengths != nil):
		c.fail("targets with a share of each class, as of mixup, need the loss cross_entropy without class_weights, and one class for each sample")
	case c.spec.Soft && out.Shape.Rank() > 0 && out.Shape.Dim(-1) != c.spec.Classes:
		c.fail("the model tells %d classes apart, and targets with a share of each class, as of mixup, have %d: give its last layer %d outputs", out.Shape.Dim(-1), c.spec.Classes, c.spec.Classes)
	case out.DType != shape.Float32, t.classes && out.Shape.Rank() == 0, !t.anyShape && !given.Equal(target.Shape):
		c.fail("the model's output for a sample is %v, but its target is %v: the last layers must give f32 of %s", out, target, wanted)
	case t.classes && out.Shape.Dim(-1) < c.spec.Classes:
		c.fail("the model tells %d classes apart, but the data has %d: give its last layer %d outputs", out.Shape.Dim(-1), c.spec.Classes, c.spec.Classes)
	default:
		return true
	}
	return false
}

// applied reports whether the model ends in a function that its loss applies
// itself; if so, it fails. Ops that only move numbers are passed over.
func (c *context) applied(logits *graph.Value) bool {
	itself := losses[c.spec.Loss].applies
	last := logits.Node
	for last != nil && slices.Contains([]string{"reshape", "transpose", "slice"}, last.Op.Kind()) {
		last = last.In[0].Node
	}
	if last == nil || !slices.Contains(itself, last.Op.Kind()) {
		return false
	}
	c.fail("the model ends in %s, but the loss applies %s itself: leave it out of the model", last.Op.Kind(), itself[0])
	return true
}

// answer turns logits into the output of a prediction.
func (c *context) answer(logits *graph.Value) *graph.Value {
	if f := losses[c.spec.Loss].answer; f != nil && c.b.Err() == nil {
		return f(c, logits)
	}
	return logits
}
