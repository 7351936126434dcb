package models

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// ResNetOptions are the sizes of a residual network.
type ResNetOptions struct {
	Depth   int  // 18, 34 or 50
	Small   bool // the stem for images of 32x32: a 3x3 convolution without a stride, and no pool
	Width   int  // channels of the first stage; 0: 64. Each stage has twice those before
	Outputs int
}

// resNets are the residual blocks of the stages, by depth.
var resNets = map[int][4]int{18: {2, 2, 2, 2}, 34: {3, 4, 6, 3}, 50: {3, 4, 6, 3}}

// ResNet is a residual network of images (He et al., "Deep Residual Learning for Image
// Recognition", 2015), with parameters named and laid out as torchvision publishes them. Of
// depth 50, blocks have a bottleneck, whose 3x3 convolution has the stride. Small is the
// paper's stem for CIFAR (§4.2). Its blocks, for partitioning, are stem, layer1.0, …, fc.
func ResNet(o ResNetOptions, pos graph.Pos) Stack {
	if o.Width == 0 {
		o.Width = 64
	}
	stem := func(name string, l Layer) Named { return Named{name, "stem", pos, l} }
	ls := Stack{stem("conv1", resNetConv(o.Width, 7, 2))}
	if o.Small {
		ls = Stack{stem("conv1", resNetConv(o.Width, 3, 1))}
	}
	ls = append(ls, stem("bn1", BatchNorm{}), stem("relu", Relu{}))
	if !o.Small {
		ls = append(ls, stem("maxpool", MaxPool{Kernel: 3, Stride: 2, Padding: 1}))
	}
	for stage, blocks := range resNets[o.Depth] {
		for i := range blocks {
			l := residualBlock{Width: o.Width << stage, Stride: 1, Bottleneck: o.Depth >= 50}
			if stage > 0 && i == 0 {
				l.Stride = 2
			}
			ls = append(ls, Named{Name: fmt.Sprintf("layer%d.%d", stage+1, i), Pos: pos, Layer: l})
		}
	}
	return append(ls, Named{"avgpool", "fc", pos, GlobalAvgPool{}}, Named{"fc", "fc", pos, Dense{Units: o.Outputs}})
}

// resNetConv is a convolution without a bias that keeps the size of images but for its
// stride. Its weights begin as He et al., 2015, say, by the outputs: normal, of deviation
// √(2/(channels·kernel²)).
func resNetConv(channels, kernel, stride int) Conv2D {
	std := math.Sqrt(2 / float64(channels*kernel*kernel))
	return Conv2D{Channels: channels, Kernel: kernel, Stride: stride, Padding: kernel / 2, NoBias: true, Std: std}
}

// residualBlock is relu(x + f(x)) over images, where f is two 3x3 convolutions, or three with
// a bottleneck, each with a batchnorm. Where f changes the shape, x goes through a 1x1
// convolution and a batchnorm, named downsample.0 and downsample.1.
type residualBlock struct {
	Width      int // channels of the 3x3 convolutions; the output has 4 times those with a bottleneck
	Stride     int
	Bottleneck bool // 1x1 to Width, 3x3, 1x1 to 4·Width
}

// Build appends the layer.
func (l residualBlock) Build(b *Builder, x *graph.Value) *graph.Value {
	out := l.Width
	convs := []Conv2D{resNetConv(l.Width, 3, l.Stride), resNetConv(l.Width, 3, 1)}
	if l.Bottleneck {
		out = 4 * l.Width
		convs = []Conv2D{resNetConv(l.Width, 1, 1), resNetConv(l.Width, 3, l.Stride), resNetConv(out, 1, 1)}
	}
	y := x
	for i, conv := range convs {
		if i > 0 {
			y = ops.Relu(b.Builder, y)
		}
		y = b.Stack(y, Named{Name: fmt.Sprintf("conv%d", i+1), Layer: conv}, Named{Name: fmt.Sprintf("bn%d", i+1), Layer: BatchNorm{}})
	}
	if b.Err() == nil && !y.Meta.Equal(x.Meta) {
		x = b.Stack(x, Named{Name: "downsample.0", Layer: resNetConv(out, 1, l.Stride)}, Named{Name: "downsample.1", Layer: BatchNorm{}})
	}
	return ops.Relu(b.Builder, ops.Add(b.Builder, x, y))
}
