package models

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
)

// MaxPool is the largest of each window.
type MaxPool struct {
	Kernel  int `yaml:"kernel" min:"1" doc:"side of the window"`
	Stride  int `yaml:"stride" min:"0" doc:"step of the window; 0: the kernel"`
	Padding int `yaml:"padding" min:"0" doc:"zeros added on each side"`
}

// AvgPool is the mean of each window.
type AvgPool MaxPool

// AdaptiveAvgPool is the mean of bins, which are as many whatever size the images have: bin i
// of n over L pixels is floor(i·L/n) to ceil((i+1)·L/n), as in PyTorch. Neighbours share
// pixels where n does not divide L.
type AdaptiveAvgPool struct {
	Size []int `yaml:"size" min:"1" items:"2" doc:"height and width of the output"`
}

// GlobalAvgPool is [B,C] from [B,C,H,W].
type GlobalAvgPool struct{}

func init() {
	builtIn(LayerType[MaxPool]{Name: "max_pool", Doc: "The largest of each window.", Takes: Images})
	builtIn(LayerType[AvgPool]{Name: "avg_pool", Doc: "The mean of each window; padding counts as zeros.", Takes: Images})
	builtIn(LayerType[AdaptiveAvgPool]{Name: "adaptive_avg_pool", Doc: "The mean of bins: an output of a given size from images of any; bins are PyTorch's.", Takes: Images})
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

// Check refuses a size that is not of two sides of at least 1.
func (l AdaptiveAvgPool) Check() error {
	if len(l.Size) != 2 || l.Size[0] < 1 || l.Size[1] < 1 {
		return registry.Refuse("size", "%v is no height and width of at least 1", shape.Shape(l.Size))
	}
	return nil
}

// Build appends the layer.
func (l AdaptiveAvgPool) Build(b *Builder, x *graph.Value) *graph.Value {
	return bins(b, bins(b, x, 2, l.Size[0]), 3, l.Size[1])
}

// bins is the means of n bins along an axis. A mean of equally large means is the mean of
// all, so that one axis follows the other.
func bins(b *Builder, x *graph.Value, axis, n int) *graph.Value {
	s := x.Meta.Shape
	length := s[axis]
	switch {
	case n == length:
		return x
	case length%n == 0: // no pixel is in two bins
		apart := slices.Concat(s[:axis], []int{n, length / n}, s[axis+1:])
		return ops.Mean(b.Builder, ops.ReshapeTo(b.Builder, x, apart...), false, axis+1)
	case length == 0:
		b.Failf("its input %v has no pixels: give it at least one", x.Meta)
		return x
	}
	means := make([]*graph.Value, n)
	for i := range n {
		from, to := make([]int, s.Rank()), slices.Clone(s)
		from[axis], to[axis] = i*length/n, ((i+1)*length+n-1)/n
		means[i] = ops.Mean(b.Builder, ops.SliceOf(b.Builder, x, from, to), true, axis)
	}
	return ops.ConcatOf(b.Builder, axis, means...)
}

// Build appends the layer.
func (GlobalAvgPool) Build(b *Builder, x *graph.Value) *graph.Value {
	return ops.Mean(b.Builder, x, false, 2, 3)
}
