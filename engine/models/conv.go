package models

import (
	"errors"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/registry"
)

// Conv2D is y[B,O,H',W'] from x[B,C,H,W] and a weight [O,C/groups,K,K].
type Conv2D struct {
	Channels   int    `yaml:"channels" min:"1" doc:"outputs"`
	Kernel     int    `yaml:"kernel" min:"1" doc:"side of the window"`
	Stride     int    `yaml:"stride" min:"1" doc:"step of the window"`
	Padding    int    `yaml:"padding" min:"0" word:"same=-1" doc:"zeros added on each side; 'same': so many that a stride of 1 keeps the size; the kernel must be odd"`
	Groups     int    `yaml:"groups" min:"1" doc:"number of separate groups of channels"`
	Dilation   int    `yaml:"dilation" min:"1" doc:"pixels from an element of the window to the next"`
	NoBias     bool   `yaml:"bias,not" doc:"add a learned number to each output"`
	Activation string `yaml:"activation,omitempty" words:"relu gelu gelu_tanh silu sigmoid tanh" doc:"applied to the output; none unless given"`

	Std float64 `yaml:"-"` // deviation of normal initial weights, with zero biases; 0: as PyTorch
}

// Same is the Conv2D.Padding with which images keep their size.
const Same = -1

func init() {
	builtIn(LayerType[Conv2D]{Name: "conv2d", Doc: "Convolution of [channels, height, width].", Takes: Images, Defaults: Conv2D{Stride: 1, Groups: 1, Dilation: 1}})
}

// Check refuses keys that do not go together.
func (l Conv2D) Check() error {
	var padding, groups error
	if l.Padding == Same && l.Kernel%2 == 0 {
		padding = registry.Refuse("padding", "same needs an odd kernel, but it is %d; use an odd kernel, or a number", l.Kernel)
	}
	if l.Channels%l.Groups != 0 {
		groups = registry.Refuse("groups", "%d groups do not divide %d channels; use a divisor", l.Groups, l.Channels)
	}
	return errors.Join(padding, groups)
}

// Resolve sets the padding that Same stands for.
func (l *Conv2D) Resolve() {
	if l.Padding == Same {
		l.Padding = l.Kernel / 2 * l.Dilation
	}
}

// Build appends the layer.
func (l Conv2D) Build(b *Builder, x *graph.Value) *graph.Value {
	op := ops.Conv2D{Stride: l.Stride, Pad: l.Padding, Groups: l.Groups, Dilation: l.Dilation, BF16: b.c.spec.BF16}
	if !b.c.windowed(op.Span(l.Kernel), l.Padding, x.Meta.Shape) {
		return x
	}
	ch := x.Meta.Shape[1]
	if ch%l.Groups != 0 {
		b.Failf("%d groups do not divide %d input and %d output channels: choose a divisor of both", l.Groups, ch, l.Channels)
		return x
	}
	init := kaiming(ch / l.Groups * l.Kernel * l.Kernel)
	biasInit := init
	if l.Std > 0 {
		init, biasInit = graph.Init{Kind: graph.Normal, A: l.Std}, graph.Init{}
	}
	w := b.Param("weight", []int{l.Channels, ch / l.Groups, l.Kernel, l.Kernel}, init, "weight")
	y := b.One(op, x, w)
	if !l.NoBias {
		bias := b.Param("bias", []int{l.Channels}, biasInit, "bias")
		y = ops.Add(b.Builder, y, ops.ReshapeTo(b.Builder, bias, l.Channels, 1, 1))
	}
	return b.c.activate(l.Activation, y)
}
