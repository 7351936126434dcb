package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/registry"
)

// MaxPool is the largest of each window.
type MaxPool struct {
	Kernel  int `yaml:"kernel" min:"1" doc:"side of the window"`
	Stride  int `yaml:"stride" min:"0" doc:"step of the window; 0: the kernel"`
	Padding int `yaml:"padding" min:"0" doc:"zeros added on each side"`
}

// AvgPool is the mean of each window.
type AvgPool MaxPool

// GlobalAvgPool is [B,C] from [B,C,H,W].
type GlobalAvgPool struct{}

func init() {
	builtIn(LayerType[MaxPool]{Name: "max_pool", Doc: "The largest of each window.", Takes: Images})
	builtIn(LayerType[AvgPool]{Name: "avg_pool", Doc: "The mean of each window; padding counts as zeros.", Takes: Images})
	builtIn(LayerType[GlobalAvgPool]{Name: "global_avg_pool", Doc: "The mean of each channel: [channels, height, width] to [channels].", Takes: Images})
}

// Check refuses padding that would fill windows.
func (l MaxPool) Check() error {
	if l.Padding > l.Kernel/2 {
		return registry.Refuse("padding", "%d is more than half the kernel of %d; lower it", l.Padding, l.Kernel)
	}
	return nil
}

// Resolve sets the stride that 0 stands for.
func (l *MaxPool) Resolve() {
	if l.Stride == 0 {
		l.Stride = l.Kernel
	}
}

// Build appends the layer.
func (l MaxPool) Build(b *Builder, x *graph.Value) *graph.Value {
	if !b.c.windowed(l.Kernel, l.Padding, x.Meta.Shape) {
		return x
	}
	return ops.MaxPool(b.Builder, x, l.Kernel, l.Stride, l.Padding)
}

// Check does what MaxPool.Check does.
func (l AvgPool) Check() error { return MaxPool(l).Check() }

// Resolve does what MaxPool.Resolve does.
func (l *AvgPool) Resolve() { (*MaxPool)(l).Resolve() }

// Build appends the layer.
func (l AvgPool) Build(b *Builder, x *graph.Value) *graph.Value {
	if !b.c.windowed(l.Kernel, l.Padding, x.Meta.Shape) {
		return x
	}
	return ops.AvgPool(b.Builder, x, l.Kernel, l.Stride, l.Padding)
}

// Build appends the layer.
func (GlobalAvgPool) Build(b *Builder, x *graph.Value) *graph.Value {
	return ops.Mean(b.Builder, x, false, 2, 3)
}
