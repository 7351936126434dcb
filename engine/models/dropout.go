package models

import (
	"hash/fnv"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Dropout drops numbers with probability Rate while training.
type Dropout struct {
	Rate float64 `yaml:"rate" min:"0" below:"1" doc:"probability that a number is dropped in training"`
}

func init() {
	builtIn(LayerType[Dropout]{Name: "dropout", Takes: Numbers, Positionwise: true, Defaults: Dropout{Rate: 0.5},
		Doc: "Zeroes numbers at random in training and scales up the rest."})
}

// Build appends the layer.
func (l Dropout) Build(b *Builder, x *graph.Value) *graph.Value {
	if !b.Training() || l.Rate == 0 {
		return x
	}
	return b.One(ops.Dropout{P: l.Rate, Seed: b.c.spec.Seed, ID: randomID(b.Layer().Name)}, x, b.c.step, sampleBase(b.c))
}

// randomID numbers the random choices of the layer of that name. It depends on the name
// alone, so that neither rewriting nor the cut into stages changes a mask.
func randomID(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// sampleBase is the index in the batch of the microbatch's first sample.
func sampleBase(c *context) *graph.Value {
	if c.base == nil {
		c.base = c.b.MicrobatchConstant(BaseName, shape.I32())
	}
	return c.base
}
