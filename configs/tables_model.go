package configs

import "slices"

var (
	modelHidden = key{name: "hidden", kind: ints{each: positive}, at: at(func(m *Model) *[]int { return &m.Hidden }), def: "[128]",
		doc: "outputs of the dense layers before the last; `[]`: no such layers"}
	modelActivation = key{name: "activation", kind: activation, at: at(func(m *Model) *string { return &m.Activation }), def: "relu",
		doc: "applied after each layer but the last; `gelu` is the exact one, `gelu_tanh` its approximation"}
	modelOutputs = key{name: "outputs", kind: counting, at: at(func(m *Model) *int { return &m.Outputs }), def: "0",
		doc: "outputs of the last layer; 0: as the data needs"}
)

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
	}, llamaPresets, []variant{
		{ModelGiven, "A model that a Go program gives to `berth.Open`. The command has none. [More on own models](extending.md#a-model).", []*key{
			{name: "program", kind: anyText, at: at(func(m *Model) *string { return &m.Program }), free: true, doc: "the program, which a run writes"},
		}},
		{"", "The layers one by one; the entries are described under `model.layers[]`.", []*key{
			{name: "layers", kind: layerList{}, at: at(func(m *Model) *[]Layer { return &m.Layers }), required: true, doc: "in the order of computation"},
		}},
	}),
})
