package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/panics"
)

// LayerType is a type of layer that a program adds. Keys is the struct of its keys in
// a config, as [registry.Fields] takes it; struct{} for none.
type LayerType[Keys any] struct {
	Name    string
	Version int    // at least 1; runs keep it, and refuse another one: raise it where the numbers change
	Doc     string // a sentence for lists
	// Defaults are the keys that are not given. A method Check() error of Keys can
	// refuse values.
	Defaults Keys
	Tokens   bool // its input is tokens (i32), not numbers (f32)
	// Positionwise: of a sequence [B,T,…], it works on each position alone, whatever T
	// is. Only then does a model with this layer generate text, or take samples of
	// different lengths.
	Positionwise bool
	// Build appends the nodes of one such layer to x, whose first axis is the samples
	// of a microbatch, and gives its output, with the same first axis.
	Build func(b *Builder, keys Keys, x *graph.Value) *graph.Value
}

// RegisterLayer adds a type of layer, for configs and for [Layer.Type]. It belongs in
// an init function, and panics where the type cannot be added.
func RegisterLayer[Keys any](t LayerType[Keys]) {
	takes := numbers
	if t.Tokens {
		takes = tokens
	}
	build := func(c *context, l *Layer, x *graph.Value) *graph.Value {
		keys, err := registry.KeysOf(l.Keys, t.Defaults)
		if err != nil {
			c.fail("%v", err)
			return x
		}
		y := c.guarded(func(b *Builder) *graph.Value { return t.Build(b, keys, x) })
		if c.b.Err() != nil {
			return x
		}
		if y == nil || y.Meta.Shape.Rank() == 0 || y.Meta.Shape[0] != c.microbatch {
			c.fail("its function gives %v for %d samples: the first axis of its output must be the samples", y, c.microbatch)
			return x
		}
		return y
	}
	if _, taken := types[t.Name]; taken {
		panic("register layer " + t.Name + ": the name exists already: choose another")
	}
	registry.Add(registry.Entry{Kind: registry.Layer, Name: t.Name, Version: t.Version, Doc: t.Doc, Keys: t.Defaults},
		func() { types[t.Name], positionwise[t.Name] = layerType{takes, build}, t.Positionwise })
}

// LossType is a loss that a program adds. Keys is the struct of its keys in a config,
// as for [LayerType].
type LossType[Keys any] struct {
	Name     string
	Version  int    // as for LayerType
	Doc      string // a sentence for lists
	Defaults Keys
	// Classes: a target is a class (i32), and the output has one more axis than the
	// targets, the last, over classes. Otherwise targets are numbers (f32) of the
	// output's shape, or with AnyShape of any.
	Classes, AnyShape bool
	// Loss gives the loss f32[] of a microbatch, summed over the numbers or classes of
	// the targets; the mean over them is trained on and reported.
	Loss func(b *Builder, keys Keys, output, target *graph.Value) *graph.Value
	// Correct, if not nil, gives the number f32[] of right answers among those targets:
	// the loss then has an accuracy.
	Correct func(b *Builder, keys Keys, output, target *graph.Value) *graph.Value
	// Answer, if not nil, turns the model's output into what predict gives.
	Answer func(b *Builder, keys Keys, output *graph.Value) *graph.Value
}

// RegisterLoss adds a loss, for configs and for [Spec.Loss]. It belongs in an init
// function, and panics where the loss cannot be added.
func RegisterLoss[Keys any](t LossType[Keys]) {
	row := lossType{classes: t.Classes, anyShape: t.AnyShape,
		loss: func(c *context, output, target *graph.Value) *graph.Value {
			return t.compare(c, t.Loss, output, target)
		}}
	if t.Correct != nil {
		row.correct = func(c *context, output, target *graph.Value) *graph.Value {
			return t.compare(c, t.Correct, output, target)
		}
	}
	if t.Answer != nil {
		row.answer = func(c *context, output *graph.Value) *graph.Value {
			return c.guarded(func(b *Builder) *graph.Value { return t.Answer(b, t.keys(c), output) })
		}
	}
	if _, taken := losses[t.Name]; taken {
		panic("register loss " + t.Name + ": the name exists already: choose another")
	}
	registry.Add(registry.Entry{Kind: registry.Loss, Name: t.Name, Version: t.Version, Doc: t.Doc, Keys: t.Defaults, Classes: t.Classes, Accuracy: t.Correct != nil},
		func() { losses[t.Name] = row })
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
	y := c.guarded(func(b *Builder) *graph.Value { return f(b, keys, output, target) })
	if c.b.Err() == nil && (y == nil || !y.Meta.Equal(shape.F32())) {
		c.fail("its function gives %v: it must give one number, f32[], summed over the targets", y)
		return output
	}
	return y
}

// guarded calls a function of the program: its panic is an error.
func (c *context) guarded(f func(*Builder) *graph.Value) (y *graph.Value) {
	defer func() {
		if r := recover(); r != nil {
			c.fail("its function panicked: %s", panics.Text(r))
		}
	}()
	return f(&Builder{c.b, c})
}

// Builder is the face of a graph under way that functions of layers and losses get.
// Ops are appended to its graph.Builder: y := ops.Add(b.Builder, x, bias).
type Builder struct {
	*graph.Builder
	c *context
}

// Training reports whether the graph is a training step's.
func (b *Builder) Training() bool { return b.c.training }

// Failf refuses the layer. The error begins with its line in the config.
func (b *Builder) Failf(format string, args ...any) { b.c.fail(format, args...) }

// Param declares a parameter, which is saved as LAYER.NAME. Tags put it into groups
// for optimizer.no_decay: "bias", "norm", "embedding".
func (b *Builder) Param(name string, dims []int, init graph.Init, tags ...string) *graph.Value {
	return b.c.param(name, dims, init, tags...)
}

// MatMul is x·w, or x·wᵀ, in the precision that the config asks for.
func (b *Builder) MatMul(x, w *graph.Value, transposed bool) *graph.Value {
	return b.c.matmul(x, w, transposed)
}

// Dropout drops numbers of x at random in training, with a probability. Each call in a
// layer has a name of its own, and so random numbers of its own.
func (b *Builder) Dropout(name string, x *graph.Value, rate float64) *graph.Value {
	if !b.c.training || rate == 0 {
		return x
	}
	return b.One(ops.Dropout{P: rate, Seed: b.c.spec.Seed, ID: randomID(b.Layer().Name + "." + name)}, x, b.c.step, sampleBase(b.c))
}

// Stack applies other layers to x, one after the other, such as dense ones. Each needs
// a name in this one; its parameters are saved as LAYER.NAME.weight and so on.
func (b *Builder) Stack(x *graph.Value, layers ...Layer) *graph.Value {
	at := b.Layer()
	for _, l := range layers {
		if l.Name == "" {
			b.Failf("its %s layer has no name: give it one", l.Type)
		}
		l.Name = at.Name + "." + l.Name
		if l.Pos == (graph.Pos{}) {
			l.Pos = at.Pos
		}
		x = b.c.stack([]Layer{l}, at.Block, x)
	}
	return x
}
