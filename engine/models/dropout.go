package models

import (
	"hash/fnv"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// randomLayers are the rows of this file in the table of layer types.
var randomLayers = map[string]layerType{"dropout": {numbers, dropout}}

// dropout drops numbers with probability l.Rate while training.
func dropout(c *context, l *Layer, x *graph.Value) *graph.Value {
	if !c.training || l.Rate == 0 {
		return x
	}
	return c.b.One(ops.Dropout{P: l.Rate, Seed: c.spec.Seed, ID: randomID(c.b.Layer().Name)}, x, c.step, sampleBase(c))
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
