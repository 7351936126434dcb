package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// normLayers are the rows of this file in the table of layer types.
var normLayers = map[string]layerType{"layernorm": {features, layerNorm}, "batchnorm": {channels, batchNorm}}

// layerNorm normalises the last axis (Ba et al., "Layer Normalization", 2016).
func layerNorm(c *context, l *Layer, x *graph.Value) *graph.Value {
	d := x.Meta.Shape.Dim(-1)
	gamma := c.param("weight", []int{d}, graph.Init{Kind: graph.Constant, A: 1}, "weight", "norm")
	beta := c.param("bias", []int{d}, graph.Init{}, "bias", "norm")
	return c.b.One(ops.LayerNorm{Eps: eps(l)}, x, gamma, beta)
}

// eps is the number added to the variance.
func eps(l *Layer) float64 {
	if l.Eps > 0 {
		return l.Eps
	}
	return 1e-5
}

// batchNorm normalises each channel: in training over the microbatch, else by
// the running averages (Ioffe and Szegedy, "Batch Normalization", 2015). The
// averages move once per step, by statistics summed over microbatches like
// gradients.
func batchNorm(c *context, l *Layer, x *graph.Value) *graph.Value {
	s := x.Meta.Shape
	ch := []int{s[1]}
	gamma := c.param("weight", ch, graph.Init{Kind: graph.Constant, A: 1}, "weight", "norm")
	beta := c.param("bias", ch, graph.Init{}, "bias", "norm")
	mean := c.variable("running_mean", ch, graph.Statistic, graph.Init{})
	variance := c.variable("running_var", ch, graph.Statistic, graph.Init{Kind: graph.Constant, A: 1})
	if !c.training {
		return c.b.One(ops.BatchNormEval{Eps: eps(l)}, x, gamma, beta, mean, variance)
	}
	out := c.b.Apply(ops.BatchNorm{Eps: eps(l)}, x, gamma, beta)
	n := x.Meta.Elems() / max(1, s[1]) // values per channel in this microbatch
	unbiased := float64(n) / float64(max(1, n-1))
	average(c, l, mean, out[1], 1)
	average(c, l, variance, out[2], unbiased)
	return out[0]
}

// average moves a running average towards the step's statistic: the mean of its
// microbatches' statistics, weighted by their samples, times factor. A factor of
// 1 is a node too, so that graphs of all sizes have the same nodes.
func average(c *context, l *Layer, running, stat *graph.Value, factor float64) {
	momentum := l.Momentum
	if momentum == 0 {
		momentum = 0.1
	}
	weighted := c.b.One(ops.Affine{Scale: factor * float64(c.microbatch)}, stat)
	layer := c.b.Layer()
	c.updates = append(c.updates, func() {
		defer c.b.In(layer)()
		sum := c.b.Accumulate(weighted, ops.AddOp)
		now := c.b.One(ops.Affine{Scale: 1 / float64(c.batch)}, sum)
		c.b.Assign(running, c.b.One(ops.Lerp{T: momentum}, running, now))
	})
}
