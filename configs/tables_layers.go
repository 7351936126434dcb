package configs

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// layerList is a []Layer.
type layerList struct{}

func (layerList) expect() string { return "a list of at least one layer" }

func (l layerList) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.mismatch(n, path, l.expect())
		return
	}
	out := make([]Layer, len(n.Content))
	for i, c := range n.Content {
		layerSection.decode(d, typed(c), fmt.Sprintf("%s[%d]", path, i), &out[i])
	}
	*dst.(*[]Layer) = out
}

// typed writes out a layer given under its type alone: `residual: [...]` is
// `{type: residual, layers: [...]}`, `dense: {units: 3}` is `{type: dense,
// units: 3}`. Other nodes stay as they are.
func typed(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		return n
	}
	kind, body := n.Content[0], n.Content[1]
	isType := slices.ContainsFunc(layerSection.variants, func(v variant) bool { return v.name == kind.Value })
	if !isType || body.Kind == yaml.ScalarNode {
		return n
	}
	out := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}
	out.Content = append(out.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "type", Line: kind.Line}, kind)
	if body.Kind == yaml.SequenceNode {
		layers := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "layers", Line: body.Line}
		out.Content = append(out.Content, layers, body)
	} else {
		out.Content = append(out.Content, body.Content...)
	}
	return out
}

func (layerList) encode(src any, keep func(*key) bool) *yaml.Node {
	out := &yaml.Node{Kind: yaml.SequenceNode}
	layers := *src.(*[]Layer)
	for i := range layers {
		out.Content = append(out.Content, layerSection.encode(&layers[i], keep))
	}
	return out
}

var (
	layerKernel = key{name: "kernel", kind: positive, at: at(func(l *Layer) *int { return &l.Kernel }), required: true, doc: "side of the window"}
	layerStride = key{name: "stride", kind: counting, at: at(func(l *Layer) *int { return &l.Stride }), def: "1", doc: "step of the window"}
	layerPad    = key{name: "padding", kind: counting, at: at(func(l *Layer) *int { return &l.Padding }), def: "0", doc: "zeros around"}
	layerBias   = key{name: "bias", kind: boolean{}, at: at(func(l *Layer) *bool { return &l.Bias }), def: "true", doc: "adds a learned number to each output"}
	layerAct    = key{name: "activation", kind: activation, at: at(func(l *Layer) *string { return &l.Activation }), doc: "applied to the output; none unless given"}
	layerRate   = key{name: "rate", kind: belowOne, at: at(func(l *Layer) *float64 { return &l.Rate }), def: "0", doc: "share of numbers dropped in training"}
	layerEps    = key{name: "eps", kind: aboveZero, at: at(func(l *Layer) *float64 { return &l.Eps }), def: "1e-5", doc: "added to the variance"}
	poolKeys    = []*key{&layerKernel, with(*optional(layerStride, "0"), "step of the window; 0: the kernel"), &layerPad}
)

var reduceKeys = []*key{
	{name: "axes", kind: ints{each: whole{0, 7}, some: true}, at: at(func(l *Layer) *[]int { return &l.Axes }), required: true, doc: "which"},
	{name: "keep", kind: boolean{}, at: at(func(l *Layer) *bool { return &l.Keep }), def: "false", doc: "leaves them in place, of size 1"},
}

// layerSection is an entry of model.layers. Axes count within a sample, from 0.
var layerSection = chosen(&section{
	doc:       "An entry of `model.layers`. Axes count from 0 within a sample. `- relu` is short for `- {type: relu}`, `- dense: {units: 3}` for `- {type: dense, units: 3}`, and `- residual: [...]` for `- {type: residual, layers: [...]}`.",
	pos:       posOf(func(l *Layer) *Pos { return &l.Pos }),
	shorthand: "type",
	selector:  &key{name: "type", at: at(func(l *Layer) *string { return &l.Type }), required: true, doc: "it decides the other keys"},
	keys: []*key{{name: "name", kind: layerName, at: at(func(l *Layer) *string { return &l.Name }),
		doc: "the prefix of its parameters' names, and what `partition.stages` calls it; the type and a number unless given"}},
	variants: []variant{
		{"dense", "y = x·Wᵀ + b over the last axis.", []*key{
			{name: "units", kind: positive, at: at(func(l *Layer) *int { return &l.Units }), required: true, doc: "outputs"},
			{name: "in", kind: counting, at: at(func(l *Layer) *int { return &l.In }), def: "0", doc: "inputs, checked; 0: whatever comes in"},
			&layerBias, &layerAct,
		}},
		{"conv2d", "Convolution of [channels, height, width].", []*key{
			{name: "channels", kind: positive, at: at(func(l *Layer) *int { return &l.Channels }), required: true, doc: "outputs"},
			&layerKernel,
			{name: "stride", kind: positive, at: layerStride.at, def: "1", doc: layerStride.doc},
			{name: "padding", kind: padding{}, at: layerPad.at, def: "0", doc: "zeros around; `same`: half the kernel, which must be odd"},
			{name: "groups", kind: positive, at: at(func(l *Layer) *int { return &l.Groups }), def: "1", doc: "channels in so many separate groups"},
			&layerBias, &layerAct,
		}},
		{"max_pool", "The largest of each window.", poolKeys},
		{"avg_pool", "The mean of each window; padding counts as zeros.", poolKeys},
		{"global_avg_pool", "The mean of each channel: [channels, height, width] to [channels].", nil},
		{"relu", "max(x, 0).", nil},
		{"gelu", "x·Φ(x), by the error function.", nil},
		{"gelu_tanh", "Its approximation by tanh, as GPT-2 has it.", nil},
		{"silu", "x·sigmoid(x).", nil},
		{"sigmoid", "1/(1+e⁻ˣ).", nil},
		{"tanh", "", nil},
		{"exp", "", nil},
		{"log", "", nil},
		{"sqrt", "", nil},
		{"softmax", "Over the last axis. The losses take logits: end a model without it.", nil},
		{"log_softmax", "Over the last axis.", nil},
		{"flatten", "All axes into one.", nil},
		{"reshape", "The same numbers in another shape.", []*key{
			{name: "shape", kind: ints{each: whole{-1, maxDim}, some: true}, at: at(func(l *Layer) *[]int { return &l.Shape }), required: true,
				doc: "of a sample; one axis may be -1"}}},
		{"transpose", "Axes in another order.", []*key{
			{name: "perm", kind: ints{each: whole{0, 7}, some: true}, at: at(func(l *Layer) *[]int { return &l.Perm }), required: true,
				doc: "which axis comes first, second, …"}}},
		{"slice", "A part of each axis.", []*key{
			{name: "start", kind: ints{each: counting, some: true}, at: at(func(l *Layer) *[]int { return &l.Start }), required: true, doc: "first index, for each axis"},
			{name: "stop", kind: ints{each: positive, some: true}, at: at(func(l *Layer) *[]int { return &l.Stop }), required: true, doc: "index after the last, for each axis"}}},
		{"layernorm", "Normalises the last axis.", []*key{&layerEps}},
		{"batchnorm", "Normalises each channel over the microbatch; by running averages when not training.", []*key{&layerEps,
			{name: "momentum", kind: fraction, at: at(func(l *Layer) *float64 { return &l.Momentum }), def: "0.1", doc: "weight of the newest statistics"}}},
		{"dropout", "Zeroes numbers at random in training and scales up the rest.", []*key{optional(layerRate, "0.5")}},
		{"embedding", "A learned row for each token.", []*key{
			{name: "vocab", kind: counting, at: at(func(l *Layer) *int { return &l.Vocab }), def: "0", doc: "rows; 0: as the data needs"},
			{name: "width", kind: positive, at: at(func(l *Layer) *int { return &l.Width }), required: true, doc: "numbers in a row"}}},
		{"positional_embedding", "Adds a learned row for each position.", []*key{
			{name: "context", kind: counting, at: at(func(l *Layer) *int { return &l.Context }), def: "0", doc: "rows; 0: as the data needs"}}},
		{"attention", "Causal self-attention with its projections `c_attn` and `c_proj`.", []*key{
			{name: "heads", kind: positive, at: at(func(l *Layer) *int { return &l.Heads }), required: true, doc: "must divide the width"},
			&layerRate}},
		{"sum", "The sum over axes.", reduceKeys}, {"mean", "The mean over axes.", reduceKeys}, {"max", "The largest over axes.", reduceKeys},
		{"neg", "-x.", nil}, {"abs", "|x|.", nil}, {"square", "x².", nil}, {"rsqrt", "1/√x.", nil},
		{"affine", "scale·x + shift.", []*key{
			{name: "scale", kind: anyReal, at: at(func(l *Layer) *float64 { return &l.Scale }), def: "1", doc: "factor"},
			{name: "shift", kind: anyReal, at: at(func(l *Layer) *float64 { return &l.Shift }), def: "0", doc: "added after it"}}},
		{"broadcast", "The same numbers, repeated along axes of 1 and new axes in front.", []*key{
			{name: "shape", kind: ints{each: positive, some: true}, at: at(func(l *Layer) *[]int { return &l.Shape }), required: true, doc: "of a sample"}}},
		{"concat", "x and layers(x), side by side.", []*key{
			{name: "axis", kind: whole{0, 7}, at: at(func(l *Layer) *int { return &l.Axis }), def: "0", doc: "along which"},
			{name: "layers", kind: layerList{}, at: at(func(l *Layer) *[]Layer { return &l.Body }), required: true, doc: "what is put beside x; other axes keep their sizes"}}},
		{"residual", "x + layers(x).", []*key{
			{name: "layers", kind: layerList{}, at: at(func(l *Layer) *[]Layer { return &l.Body }), required: true, doc: "what is added; keeps the shape"}}},
	},
})
