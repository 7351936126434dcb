package models

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/panics"
)

// Builder is the face of a graph under way that layers and losses get. Ops are appended
// to its graph.Builder: y := ops.Add(b.Builder, x, bias).
type Builder struct {
	*graph.Builder
	c *context
}

// Training reports whether the graph is a training step's.
func (b *Builder) Training() bool { return b.c.training }

// Padded reports whether samples have lengths, so that some positions are padding.
func (b *Builder) Padded() bool { return b.c.lengths != nil }

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

// Stack applies other layers to x, one after the other, such as dense ones. The parameters
// of one that is [Named] are saved as LAYER.NAME.weight and so on, of others as
// LAYER.dense_1.weight.
func (b *Builder) Stack(x *graph.Value, layers ...Layer) *graph.Value {
	at := b.Layer()
	for _, l := range layers {
		n := placed(l)
		if n.Name == "" {
			n.Name = b.c.unnamed(at.Name, n.Type())
		}
		n.Name = at.Name + "." + n.Name
		if n.Pos == (graph.Pos{}) {
			n.Pos = at.Pos
		}
		x = b.c.stack(Stack{n}, at.Block, x)
	}
	return x
}

// unnamed names a layer in another one: dense_1, dense_2 and so on.
func (c *context) unnamed(in, kind string) string {
	c.counts[in+"."+kind]++
	return fmt.Sprintf("%s_%d", kind, c.counts[in+"."+kind])
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
