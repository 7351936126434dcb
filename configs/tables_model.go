package configs

import (
	"cmp"
	"slices"
)

var (
	modelHidden = key{name: "hidden", kind: ints{each: positive}, at: at(func(m *Model) *[]int { return &m.Hidden }), def: "[128]",
		doc: "outputs of the dense layers before the last; `[]`: no such layers"}
	modelActivation = key{name: "activation", kind: activation, at: at(func(m *Model) *string { return &m.Activation }), def: "relu",
		doc: "applied after each layer but the last; `gelu` is the exact one, `gelu_tanh` its approximation"}
	modelOutputs = key{name: "outputs", kind: counting, at: at(func(m *Model) *int { return &m.Outputs }), def: "0",
		doc: "outputs of the last layer; 0: as the data needs"}
)

// The values of Model.Stem.
const (
	StemImageNet = "imagenet"
	StemCIFAR    = "cifar"
)

// imagePresets are the presets of published networks of images.
var imagePresets = []variant{
	{"resnet", "A residual network (He et al., \"Deep Residual Learning for Image Recognition\", 2015); parameters are named and laid out as torchvision publishes them.", []*key{
		{name: "depth", kind: enum{"18", "34", "50"}, at: at(func(m *Model) *string { return &m.Depth }), def: "18", doc: "number of layers with weights; blocks of 50 have a bottleneck"},
		{name: "stem", kind: enum{StemImageNet, StemCIFAR}, at: at(func(m *Model) *string { return &m.Stem }), def: StemImageNet,
			doc: "`imagenet` begins with a 7×7 convolution and a pool, by which images shrink to a quarter; `cifar`, for images of about 32×32, with a 3×3 convolution"},
		{name: "width", kind: positive, at: at(func(m *Model) *int { return &m.Width }), def: "64", doc: "channels of the first stage; each stage has twice those of the one before"},
		&modelOutputs,
	}},
	{"vit", "A vision transformer (Dosovitskiy et al., \"An Image is Worth 16x16 Words\", 2020); parameters are named and laid out as Hugging Face publishes them, without `vit.`.", []*key{
		{name: "size", kind: enum{"tiny", "small"}, at: at(func(m *Model) *string { return &m.Size }), def: "tiny", doc: "`tiny` has 3 heads and a width of 192, `small` 6 and 384"},
		{name: "patch", kind: positive, at: at(func(m *Model) *int { return &m.Patch }), def: "16", doc: "side of the patches, which must divide height and width of the images"},
		{name: "layers", kind: whole{1, 10000}, at: at(func(m *Model) *int { return &m.Blocks }), def: "12", doc: "number of transformer blocks"},
		{name: "heads", kind: counting, at: at(func(m *Model) *int { return &m.Heads }), def: "0", doc: "attention heads; must divide `width`. 0: as `size` says"},
		{name: "width", kind: counting, at: at(func(m *Model) *int { return &m.Width }), def: "0", doc: "numbers that represent a patch; 0: as `size` says"},
		{name: "dropout", kind: belowOne, at: at(func(m *Model) *float64 { return &m.Dropout }), def: "0", doc: "probability that a number is dropped in training"},
		&modelOutputs,
	}},
}

// ViT gives the heads and the width of the preset vit: those of the keys, and of its size where
// they are 0.
func (m *Model) ViT() (heads, width int) {
	heads, width = 3, 192
	if m.Size == "small" {
		heads, width = 6, 384
	}
	return cmp.Or(m.Heads, heads), cmp.Or(m.Width, width)
}

// ModelGiven is the preset of a model that a Go program gives when it opens a run.
const ModelGiven = "given"

var modelSection = chosen(&section{
	doc: "The model: a preset, or a list of layers.",
	pos: posOf(func(m *Model) *Pos { return &m.Pos }),
	selector: &key{name: "preset", at: at(func(m *Model) *string { return &m.Preset }),
		doc: "a ready model; it decides the other keys. Without it, `layers` lists the layers"},
	variants: slices.Concat([]variant{
		{"mlp", "Dense layers `layers.0`, `layers.1`, … with activations between them.", []*key{&modelHidden, &modelActivation, &modelOutputs}},
		{"cnn", "Blocks of convolution, activation and 2×2 max pooling, `conv1`, `conv2`, …; then dense layers `fc1`, `fc2`, ….", []*key{
			{name: "channels", kind: ints{each: positive, some: true}, at: at(func(m *Model) *[]int { return &m.Channels }), def: "[16, 32]",
				doc: "output channels of each block"},
			{name: "kernel", kind: positive, at: at(func(m *Model) *int { return &m.Kernel }), def: "3", doc: "side of the convolutions' windows; odd"},
			&modelHidden, &modelActivation, &modelOutputs,
		}},
		{"gpt", "GPT-2; parameters are named and laid out as Hugging Face publishes them.", []*key{
			{name: "layers", kind: whole{1, 10000}, at: at(func(m *Model) *int { return &m.Blocks }), def: "4", doc: "number of transformer blocks"},
			{name: "heads", kind: positive, at: at(func(m *Model) *int { return &m.Heads }), def: "4", doc: "attention heads; must divide `width`"},
			{name: "width", kind: positive, at: at(func(m *Model) *int { return &m.Width }), def: "128", doc: "numbers that represent a token"},
			{name: "context", kind: counting, at: at(func(m *Model) *int { return &m.Context }), def: "0",
				doc: "positions in the table of positions; 0: `data.context`, or 64 for data without it"},
			{name: "vocab", kind: counting, at: at(func(m *Model) *int { return &m.Vocab }), def: "0", doc: "tokens in the table of tokens; 0: as the data needs"},
			{name: "dropout", kind: belowOne, at: at(func(m *Model) *float64 { return &m.Dropout }), def: "0", doc: "probability that a number is dropped in training"},
			{name: "tied", kind: boolean{}, at: at(func(m *Model) *bool { return &m.Tied }), def: "true", doc: "the head uses the table of tokens as its weight"},
			optional(modelActivation, "gelu_tanh"),
		}},
	}, llamaPresets, imagePresets, []variant{
		{ModelGiven, "A model that a Go program gives to `berth.Open`. The command has none. [More on own models](extending.md#a-model).", []*key{
			{name: "program", kind: anyText, at: at(func(m *Model) *string { return &m.Program }), free: true, doc: "the program, which a run writes"},
		}},
		{"", "The layers one by one; the entries are described under `model.layers[]`.", []*key{
			{name: "layers", kind: layerList{}, at: at(func(m *Model) *[]Layer { return &m.Layers }), required: true, doc: "in the order of computation"},
		}},
	}),
})
