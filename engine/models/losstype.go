package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
)

// LossType is a loss that configs know. Keys is the struct of its keys, as
// [registry.Fields] takes it; struct{} for none.
type LossType[Keys any] struct {
	Name     string
	Version  int    // as for LayerType
	Doc      string // a sentence for lists
	Defaults Keys   // as for LayerType
	// Classes: a target is a class (i32), and the output has one more axis than the
	// targets, the last, over classes. Otherwise targets are numbers (f32) of the
	// output's shape, or with AnyShape of any. Bits: they are from 0 to 1, which stand for
	// no and yes.
	Classes, AnyShape, Bits bool
	// Applies are the ops that the loss begins with, the first by itself: no model should
	// end in one.
	Applies []string
	// Pads: padding counts nothing, which is a class of -1 or equal numbers. Only then do
	// samples have different lengths.
	Pads bool
	// Loss gives the loss f32[] of a microbatch, summed over the numbers or classes of
	// the targets; the mean over them is trained on and reported.
	Loss func(b *Builder, keys Keys, output, target *graph.Value) *graph.Value
	// Weight, if not nil, gives the sum f32[] of the weights of a microbatch's targets. Training
	// divides the step's loss by that of its microbatches. Where it gives nil, each target counts 1.
	Weight func(b *Builder, keys Keys, output, target *graph.Value) *graph.Value
	// Correct, if not nil, gives the number f32[] of right answers among those targets:
	// the loss then has an accuracy.
	Correct func(b *Builder, keys Keys, output, target *graph.Value) *graph.Value
	// Answer, if not nil, turns the model's output into what predict gives.
	Answer func(b *Builder, keys Keys, output *graph.Value) *graph.Value
}

// RegisterLoss adds a loss, for configs and for [Spec.Loss]. It belongs in an init
// function, and panics where the loss cannot be added.
func RegisterLoss[Keys any](t LossType[Keys]) { t.register(registry.Add) }

// builtInLoss is RegisterLoss for the losses of this package, which have no version.
func builtInLoss[Keys any](t LossType[Keys]) { t.register(registry.BuiltIn) }

func (t LossType[Keys]) register(add func(registry.Entry, func())) {
	row := lossType{
		classes: t.Classes, anyShape: t.AnyShape, bits: t.Bits, applies: t.Applies, pads: t.Pads,
		loss: func(c *context, output, target *graph.Value) *graph.Value {
			return t.compare(c, t.Loss, output, target)
		}}
	if t.Weight != nil {
		row.weight = func(c *context, output, target *graph.Value) *graph.Value {
			y := t.call(c, func(b *Builder) *graph.Value { return t.Weight(b, t.keys(c), output, target) })
			if c.b.Err() == nil && y != nil && !y.Meta.Equal(shape.F32()) {
				c.fail("its Weight gives %v: it must give one number, f32[], or nil", y)
			}
			return y
		}
	}
	if t.Correct != nil {
		row.correct = func(c *context, output, target *graph.Value) *graph.Value {
			return t.compare(c, t.Correct, output, target)
		}
	}
	if t.Answer != nil {
		row.answer = func(c *context, output *graph.Value) *graph.Value {
			return t.call(c, func(b *Builder) *graph.Value { return t.Answer(b, t.keys(c), output) })
		}
	}
	e := registry.Entry{
		Kind: registry.Loss, Name: t.Name, Version: t.Version, Doc: t.Doc, Keys: t.Defaults,
		Classes: t.Classes, Accuracy: t.Correct != nil, Bits: t.Bits, Applies: t.Applies,
	}
	add(e, func() { losses[t.Name] = row })
}

func (t LossType[Keys]) keys(c *context) Keys {
	keys, err := registry.KeysOf(c.spec.LossKeys, t.Defaults)
	if err != nil {
		c.fail("%v", err)
	}
	return keys
}

// compare calls a function of the loss, and checks that it gives one number.
func (t LossType[Keys]) compare(c *context, f func(*Builder, Keys, *graph.Value, *graph.Value) *graph.Value, output, target *graph.Value) *graph.Value {
	keys := t.keys(c)
	if c.b.Err() != nil {
		return output
	}
	y := t.call(c, func(b *Builder) *graph.Value { return f(b, keys, output, target) })
	if c.b.Err() == nil && (y == nil || !y.Meta.Equal(shape.F32())) {
		c.fail("its function gives %v: it must give one number, f32[], summed over the targets", y)
		return output
	}
	return y
}

// call calls a function of the loss. In one of a program, a panic is an error.
func (t LossType[Keys]) call(c *context, f func(*Builder) *graph.Value) *graph.Value {
	if t.Version == 0 {
		return f(&Builder{c.b, c})
	}
	return c.guarded(f)
}

// lossType is a row of the table of losses.
type lossType struct {
	classes, anyShape, bits bool
	applies                 []string
	pads                    bool
	loss                    func(c *context, output, target *graph.Value) *graph.Value
	weight                  func(c *context, output, target *graph.Value) *graph.Value // nil: each target counts 1
	correct                 func(c *context, output, target *graph.Value) *graph.Value // nil: no answer is right or wrong
	answer                  func(c *context, output *graph.Value) *graph.Value         // nil: the output is the answer
}

// losses is the table of losses, by name.
var losses = map[string]lossType{}

// targets is the targets that a loss takes, in words.
func (t lossType) targets() string {
	if t.classes {
		return "classes (i32)"
	}
	return "numbers (f32)"
}

// Classifies reports whether the model has an accuracy.
func (s Spec) Classifies() bool { return losses[s.Loss].correct != nil }
