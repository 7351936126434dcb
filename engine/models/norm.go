package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// LayerNorm normalises the last axis (Ba et al., "Layer Normalization", 2016).
type LayerNorm struct {
	Eps float64 `yaml:"eps" above:"0" doc:"added to the variance"`
}

// RMSNorm scales the last axis to a mean square of 1 (Zhang and Sennrich, "Root Mean Square
// Layer Normalization", 2019).
type RMSNorm struct {
	Eps float64 `yaml:"eps" above:"0" doc:"added to the mean square"`
}

// BatchNorm normalises each channel: in training over the microbatch, else by
// the running averages (Ioffe and Szegedy, "Batch Normalization", 2015). The
// averages move once per step, by statistics summed over microbatches like
// gradients.
type BatchNorm struct {
	Eps      float64 `yaml:"eps" above:"0" doc:"added to the variance"`
	Momentum float64 `yaml:"momentum" above:"0" max:"1" doc:"weight of the newest statistics in the running averages"`
}

// GroupNorm normalises each sample's channels in groups, over their pixels: x[B,C,…], a mean
// and a variance for each of the groups (Wu and He, "Group Normalization", 2018). Each channel
// has a weight and a bias.
type GroupNorm struct {
	Groups int     `yaml:"groups" min:"1" doc:"number of groups; must divide the channels"`
	Eps    float64 `yaml:"eps" above:"0" doc:"added to the variance"`
}

func init() {
	builtIn(LayerType[GroupNorm]{Name: "groupnorm", Doc: "Normalises the channels of a sample in groups, over all their pixels.", Takes: Channels, Defaults: GroupNorm{Eps: 1e-5}})
	builtIn(LayerType[LayerNorm]{Name: "layernorm", Doc: "Normalises the last axis.", Takes: Features, Positionwise: true, Defaults: LayerNorm{Eps: 1e-5}})
	builtIn(LayerType[RMSNorm]{Name: "rmsnorm", Doc: "Scales the last axis to a mean square of 1.", Takes: Features, Positionwise: true, Defaults: RMSNorm{Eps: 1e-6}})
	builtIn(LayerType[BatchNorm]{Name: "batchnorm", Takes: Channels, Defaults: BatchNorm{Eps: 1e-5, Momentum: 0.1},
		Doc: "Normalises each channel: in training over the microbatch, else by running averages."})
}

// Build appends the layer.
func (l LayerNorm) Build(b *Builder, x *graph.Value) *graph.Value {
	d := x.Meta.Shape.Dim(-1)
	gamma := b.Param("weight", []int{d}, graph.Init{Kind: graph.Constant, A: 1}, "weight", "norm")
	beta := b.Param("bias", []int{d}, graph.Init{}, "bias", "norm")
	return b.One(ops.LayerNorm{Eps: l.Eps}, x, gamma, beta)
}

// Build appends the layer.
func (l RMSNorm) Build(b *Builder, x *graph.Value) *graph.Value {
	gamma := b.Param("weight", []int{x.Meta.Shape.Dim(-1)}, graph.Init{Kind: graph.Constant, A: 1}, "weight", "norm")
	return b.One(ops.RMSNorm{Eps: l.Eps}, x, gamma)
}

// padding is refused.
func (BatchNorm) padding(*context) string {
	return "its statistics would count the padding of sequences of different lengths: use layernorm"
}

// Build appends the layer.
func (l BatchNorm) Build(b *Builder, x *graph.Value) *graph.Value {
	c, s := b.c, x.Meta.Shape
	ch := []int{s[1]}
	gamma := b.Param("weight", ch, graph.Init{Kind: graph.Constant, A: 1}, "weight", "norm")
	beta := b.Param("bias", ch, graph.Init{}, "bias", "norm")
	mean := c.variable("running_mean", ch, graph.Statistic, graph.Init{})
	variance := c.variable("running_var", ch, graph.Statistic, graph.Init{Kind: graph.Constant, A: 1})
	if !b.Training() {
		return b.One(ops.BatchNormEval{Eps: l.Eps}, x, gamma, beta, mean, variance)
	}
	out := b.Apply(ops.BatchNorm{Eps: l.Eps}, x, gamma, beta)
	n := x.Meta.Elems() / max(1, s[1]) // values per channel in this microbatch
	unbiased := float64(n) / float64(max(1, n-1))
	l.average(c, mean, out[1], 1)
	l.average(c, variance, out[2], unbiased)
	return out[0]
}

// average moves a running average towards the step's statistic: the mean of its
// microbatches' statistics, weighted by their samples, times factor. A factor of
// 1 is a node too, so that graphs of all sizes have the same nodes.
func (l BatchNorm) average(c *context, running, stat *graph.Value, factor float64) {
	weighted := c.b.One(ops.Affine{Scale: factor * float64(c.microbatch)}, stat)
	layer := c.b.Layer()
	c.updates = append(c.updates, func() {
		defer c.b.In(layer)()
		sum := c.b.Accumulate(weighted, ops.AddOp)
		now := c.b.One(ops.Affine{Scale: 1 / float64(c.batch)}, sum)
		c.b.Assign(running, c.b.One(ops.Lerp{T: l.Momentum}, running, now))
	})
}

// padding is refused.
func (GroupNorm) padding(*context) string {
	return "its statistics would count the padding of sequences of different lengths: use layernorm"
}

// Build appends the layer: layernorm over the numbers of a group, whose own weight and bias
// are 1 and 0, and then the channels' weight and bias.
func (l GroupNorm) Build(b *Builder, x *graph.Value) *graph.Value {
	s := x.Meta.Shape
	if s[1]%l.Groups != 0 {
		b.Failf("%d groups do not divide %d channels: use a divisor", l.Groups, s[1])
		return x
	}
	channel := make([]int, s.Rank()-1) // [C,1,…], to broadcast over x
	for i := range channel {
		channel[i] = 1
	}
	channel[0] = s[1]
	gamma := b.Param("weight", []int{s[1]}, graph.Init{Kind: graph.Constant, A: 1}, "weight", "norm")
	beta := b.Param("bias", []int{s[1]}, graph.Init{}, "bias", "norm")
	group := s[1:].Elems() / l.Groups
	one, zero := ops.Const(b.Builder, shape.F32(group), 1), ops.Const(b.Builder, shape.F32(group), 0)
	y := b.One(ops.LayerNorm{Eps: l.Eps}, ops.ReshapeTo(b.Builder, x, s[0], l.Groups, group), one, zero)
	y = ops.Mul(b.Builder, ops.ReshapeTo(b.Builder, y, s...), ops.ReshapeTo(b.Builder, gamma, channel...))
	return ops.Add(b.Builder, y, ops.ReshapeTo(b.Builder, beta, channel...))
}
