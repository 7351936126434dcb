package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// convLayers are the rows of this file in the table of layer types.
var convLayers = map[string]layerType{
	"conv2d": {images, conv2d}, "max_pool": {images, maxPool}, "avg_pool": {images, avgPool}, "global_avg_pool": {images, globalAvgPool},
}

// conv2d is y[B,O,H',W'] from x[B,C,H,W] and a weight [O,C/groups,K,K].
func conv2d(c *context, l *Layer, x *graph.Value) *graph.Value {
	if !c.positive("channels", l.Channels) || !c.windowed(l, x.Meta.Shape) {
		return x
	}
	groups, stride := max(1, l.Groups), max(1, l.Stride)
	ch := x.Meta.Shape[1]
	if ch%groups != 0 || l.Channels%groups != 0 {
		c.fail("%d groups do not divide %d input and %d output channels: choose a divisor of both", groups, ch, l.Channels)
		return x
	}
	init := kaiming(ch / groups * l.Kernel * l.Kernel)
	w := c.param("weight", []int{l.Channels, ch / groups, l.Kernel, l.Kernel}, init, "weight")
	y := ops.Conv2DOf(c.b, x, w, stride, l.Padding, groups)
	if !l.NoBias {
		bias := c.param("bias", []int{l.Channels}, init, "bias")
		y = ops.Add(c.b, y, ops.ReshapeTo(c.b, bias, l.Channels, 1, 1))
	}
	return c.activate(l.Activation, y)
}

func maxPool(c *context, l *Layer, x *graph.Value) *graph.Value {
	if !poolFits(c, l, x.Meta.Shape) {
		return x
	}
	return ops.MaxPool(c.b, x, l.Kernel, poolStride(l), l.Padding)
}

func avgPool(c *context, l *Layer, x *graph.Value) *graph.Value {
	if !poolFits(c, l, x.Meta.Shape) {
		return x
	}
	return ops.AvgPool(c.b, x, l.Kernel, poolStride(l), l.Padding)
}

// poolFits checks the window of a pool against images x.
func poolFits(c *context, l *Layer, x shape.Shape) bool {
	if l.Padding > l.Kernel/2 {
		c.fail("padding %d is more than half of kernel %d: lower padding", l.Padding, l.Kernel)
		return false
	}
	return c.windowed(l, x)
}

// poolStride is the step of a pool's window: the kernel unless given.
func poolStride(l *Layer) int {
	if l.Stride > 0 {
		return l.Stride
	}
	return l.Kernel
}

// globalAvgPool is [B,C] from [B,C,H,W].
func globalAvgPool(c *context, _ *Layer, x *graph.Value) *graph.Value {
	return ops.Mean(c.b, x, false, 2, 3)
}
