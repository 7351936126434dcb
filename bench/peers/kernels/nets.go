package main

import (
	"fmt"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// net is a network whose kernels are measured.
type net struct {
	name          string
	input, target shape.Meta // of a sample
	layers        models.Stack
	batch         int
	answers       bool // its products alone, without training: weights stay
}

// text is a net on tokens. Each sample is a sequence.
func text(name string, layers models.Stack, batch, tokens int) net {
	return net{name: name, input: shape.I32(tokens), target: shape.I32(tokens), layers: layers, batch: batch}
}

// images is a net of classes of square images.
func images(name string, layers models.Stack, batch, channels, side int) net {
	return net{name: name, input: shape.F32(channels, side, side), target: shape.I32(), layers: layers, batch: batch}
}

// answering is a language model that reads a few tokens at once.
func answering(name string, layers models.Stack, tokens int) net {
	n := text(name+", "+units.Count(tokens, "row"), layers, 1, tokens)
	n.answers = true
	return n
}

// nets lists the five workloads of `trainer bench` with their batches, and five nets as they are
// published, of few layers: layers of a kind have the same kernels.
func nets() []net {
	gpt := func(layers, heads, width, context, vocab int) models.Stack {
		return models.GPT(models.GPTOptions{Layers: layers, Heads: heads, Width: width, Context: context, Vocab: vocab}, graph.Pos{})
	}
	gpt2 := gpt(1, 12, 768, 1024, 50257)
	llama := models.Llama(models.LlamaOptions{
		Layers: 1, Heads: 32, KVHeads: 8, Width: 2048, Hidden: 8192, Context: 256, Vocab: 128256, Eps: 1e-5, Theta: 500000,
	}, graph.Pos{})
	vit := models.ViT(models.ViTOptions{Patch: 16, Layers: 1, Heads: 12, Width: 768, Outputs: 1000}, graph.Pos{})
	all := []net{
		{
			name: "mlp", input: shape.F32(784), target: shape.I32(), batch: 128,
			layers: models.MLP([]int{512, 256}, "relu", 10, graph.Pos{}),
		},
		images("cnn", models.CNN([]int{32, 64}, 3, []int{128}, "relu", 10, graph.Pos{}), 64, 1, 28),
		text("gpt-nano", gpt(1, 4, 128, 64, 65), 12, 64),
		text("gpt-small", gpt(1, 6, 384, 256, 65), 8, 256),
		text("gpt2", gpt2, 4, 64),
		images("resnet-50", models.ResNet(models.ResNetOptions{Depth: 50, Outputs: 1000}, graph.Pos{}), 8, 3, 224),
		images("mobilenet", mobileNet(), 8, 3, 224),
		images("vit-b", vit, 8, 3, 224),
		text("llama-1b", llama, 1, 256),
	}
	for _, rows := range []int{1, 8, 128} {
		all = append(all, answering("gpt2", gpt2, rows), answering("llama-1b", llama, rows))
	}
	return all
}

// mobileNet is the convolutions of MobileNet (Howard et al., "MobileNets: Efficient Convolutional
// Neural Networks for Mobile Vision Applications", 2017, table 1), each shape once or more.
func mobileNet() (ls models.Stack) {
	add := func(l models.Layer) { ls = append(ls, models.Named{Name: fmt.Sprint("l", len(ls)), Layer: l}) }
	conv := func(channels, kernel, stride, groups int) {
		add(models.Conv2D{
			Channels: channels, Kernel: kernel, Stride: stride, Padding: kernel / 2, Groups: groups, Dilation: 1, NoBias: true,
		})
		add(models.Relu{})
	}
	conv(32, 3, 2, 1)
	channels := 32
	for _, block := range [][2]int{{64, 1}, {128, 2}, {128, 1}, {256, 2}, {256, 1}, {512, 2}, {512, 1}, {1024, 2}, {1024, 1}} {
		conv(channels, 3, block[1], channels)
		channels = block[0]
		conv(channels, 1, 1, 1)
	}
	add(models.GlobalAvgPool{})
	add(models.Dense{Units: 1000})
	return ls
}

// graph is the net's step of training, or its answer.
func (n net) graph() (*graph.Graph, error) {
	s := models.Spec{Input: n.input, Target: n.target, Layers: n.layers, Loss: "cross_entropy", Seed: 1}
	z := models.Size{Microbatch: n.batch, Microbatches: 1, Batch: n.batch, Ring: 1}
	if n.answers {
		return models.Predict(s, z)
	}
	return models.Train(s, optim.Spec{Name: "sgd", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.1}}, z)
}

// passOf is the part of the step that a node belongs to: y, dx or dw.
func passOf(n *graph.Node, backward bool) string {
	kind := n.Op.Kind()
	switch {
	case kind == "conv2d_grad_w":
		return "dw"
	case kind == "matmul" && backward && n.Op.(ops.MatMul).TransA:
		return "dw"
	case backward:
		return "dx"
	}
	return "y"
}

// scores are the softmaxes that the nets compute as a part of other kernels, as kernels of their own.
func scores() (*graph.Graph, error) {
	b := graph.NewBuilder("scores", 1)
	for _, s := range [][2]int{{2048, 65}, {256, 50257}, {8 * 12 * 197, 197}} {
		name := fmt.Sprint(s[0], "x", s[1])
		x, dy := b.Input("x"+name, shape.F32(s[0], s[1])), b.Input("dy"+name, shape.F32(s[0], s[1]))
		y := b.One(ops.Softmax{}, x)
		b.Output("y"+name, y)
		b.Output("dx"+name, b.One(ops.SoftmaxGrad{}, y, dy))
	}
	return b.Graph()
}

// isLoss reports whether a node is the gradient of the loss, with which the way back begins.
func isLoss(n *graph.Node) bool { return strings.HasPrefix(n.Op.Kind(), "cross_entropy_grad") }
