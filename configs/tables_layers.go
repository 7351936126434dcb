package configs

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/registry"
)

// layerList is a list of layers.
type layerList struct{}

func (layerList) expect() string { return "a list of at least one layer" }

func (l layerList) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.mismatch(n, path, l.expect())
		return
	}
	out := make([]Layer, len(n.Content))
	for i, c := range n.Content {
		at, full := fmt.Sprintf("%s[%d]", path, i), typed(c)
		if full == nil {
			d.fail(d.pos(c), at, "got %s for %s, expected its keys: {type: %s, …}, or %s: {…}", describe(c.Content[1]), c.Content[0].Value, c.Content[0].Value, c.Content[0].Value)
			continue
		}
		d.origin[full] = d.origin[c]
		layerSection.decode(d, full, at, &out[i])
	}
	*dst.(*[]Layer) = out
}

// typed expands a layer that is written under its type: `residual: [...]` to
// `{type: residual, layers: [...]}`, and `dense: {units: 3}` to `{type: dense,
// units: 3}`. A word that is no key counts as a type, which is refused as one. Other nodes
// stay as they are; nil stands for a type with a number or a word in place of its keys.
func typed(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		return n
	}
	kind, body := n.Content[0], n.Content[1]
	isType := layerSection.row(kind.Value) != nil
	switch {
	case isType && body.Kind == yaml.ScalarNode && !isNull(body):
		return nil
	case !isType && (body.Kind == yaml.ScalarNode || layerKey(kind.Value)):
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

// layerKey reports whether a layer of some type has a key of that name.
func layerKey(name string) bool {
	return slices.ContainsFunc(layerSection.all(), func(k *key) bool { return k.name == name })
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
	layerPad    = key{name: "padding", kind: counting, at: at(func(l *Layer) *int { return &l.Padding }), def: "0", doc: "zeros added on each side"}
	layerBias   = key{name: "bias", kind: boolean{}, at: at(func(l *Layer) *bool { return &l.Bias }), def: "true", doc: "add a learned number to each output"}
	layerAct    = key{name: "activation", kind: activation, at: at(func(l *Layer) *string { return &l.Activation }), doc: "applied to the output; none unless given"}
	layerRate   = key{name: "rate", kind: belowOne, at: at(func(l *Layer) *float64 { return &l.Rate }), def: "0", doc: "probability that a number is dropped in training"}
	layerEps    = key{name: "eps", kind: aboveZero, at: at(func(l *Layer) *float64 { return &l.Eps }), def: "1e-5", doc: "added to the variance"}
	poolKeys    = []*key{&layerKernel, with(*optional(layerStride, "0"), "step of the window; 0: the kernel"), &layerPad}
)

var reduceKeys = []*key{
	{name: "axes", kind: ints{each: whole{0, 7}, some: true}, at: at(func(l *Layer) *[]int { return &l.Axes }), required: true, doc: "the axes, from 0"},
	{name: "keep", kind: boolean{}, at: at(func(l *Layer) *bool { return &l.Keep }), def: "false", doc: "keep them, with size 1"},
}

var recurrentKeys = []*key{
	{name: "units", kind: positive, at: at(func(l *Layer) *int { return &l.Units }), required: true, doc: "outputs"},
	{name: "last", kind: boolean{}, at: at(func(l *Layer) *bool { return &l.Last }), def: "false", doc: "only the output after the last token read, [units], in place of [time, units]; with bidirectional the second half is that of the first position, as in h_n of PyTorch"},
	{name: "bidirectional", kind: boolean{}, at: at(func(l *Layer) *bool { return &l.Bidirectional }), def: "false", doc: "a second loop goes from the end to the start; the outputs of both are joined"},
	with(layerBias, "add two learned numbers to each gate"),
}

// layerSection is an entry of model.layers. Axes count within a sample, from 0.
var layerSection = chosen(&section{
	doc:       "An entry of `model.layers`. Axes count from 0 within a sample. `- relu` is short for `- {type: relu}`, `- dense: {units: 3}` for `- {type: dense, units: 3}`, and `- residual: [...]` for `- {type: residual, layers: [...]}`.",
	pos:       posOf(func(l *Layer) *Pos { return &l.Pos }),
	shorthand: "type",
	listed:    true,
	addable:   registry.Layer,
	added:     addedTo(func(l *Layer) *Added { return &l.Added }),
	selector:  &key{name: "type", at: at(func(l *Layer) *string { return &l.Type }), required: true, doc: "it decides the other keys"},
	keys: []*key{{name: "name", kind: layerName, at: at(func(l *Layer) *string { return &l.Name }),
		doc: "prefix of its parameters' names, and its name in `partition.stages`; the type and a number unless given"}},
	variants: []variant{
		{"dense", "y = x·Wᵀ + b over the last axis.", []*key{
			{name: "units", kind: positive, at: at(func(l *Layer) *int { return &l.Units }), required: true, doc: "outputs"},
			{name: "in", kind: counting, at: at(func(l *Layer) *int { return &l.In }), def: "0", doc: "inputs, to be checked; 0: no check"},
			&layerBias, &layerAct,
		}},
		{"conv2d", "Convolution of [channels, height, width].", []*key{
			{name: "channels", kind: positive, at: at(func(l *Layer) *int { return &l.Channels }), required: true, doc: "outputs"},
			&layerKernel,
			{name: "stride", kind: positive, at: layerStride.at, def: "1", doc: layerStride.doc},
			{name: "padding", kind: padding{}, at: layerPad.at, def: "0", doc: "zeros added on each side; `same`: half the kernel, which must be odd"},
			{name: "groups", kind: positive, at: at(func(l *Layer) *int { return &l.Groups }), def: "1", doc: "number of separate groups of channels"},
			&layerBias, &layerAct,
		}},
		{"max_pool", "The largest of each window.", poolKeys},
		{"avg_pool", "The mean of each window; padding counts as zeros.", poolKeys},
		{"global_avg_pool", "The mean of each channel: [channels, height, width] to [channels].", nil},
		{"relu", "max(x, 0).", nil},
		{"gelu", "x·Φ(x), by the error function.", nil},
		{"gelu_tanh", "Approximation of gelu by tanh, as in GPT-2.", nil},
		{"silu", "x·sigmoid(x).", nil},
		{"sigmoid", "1/(1+e⁻ˣ). Not before loss bce, which applies it itself.", nil},
		{"tanh", "tanh(x).", nil},
		{"exp", "eˣ.", nil},
		{"log", "ln(x).", nil},
		{"sqrt", "√x.", nil},
		{"softmax", "Softmax over the last axis. Not before loss cross_entropy, which applies it itself.", nil},
		{"log_softmax", "Logarithm of softmax over the last axis. Before loss cross_entropy it changes nothing.", nil},
		{"flatten", "All axes into one.", nil},
		{"reshape", "The same numbers in another shape.", []*key{
			{name: "shape", kind: ints{each: whole{-1, maxDim}, some: true}, at: at(func(l *Layer) *[]int { return &l.Shape }), required: true,
				doc: "of a sample; one axis may be -1, and is then computed"}}},
		{"transpose", "Axes in another order.", []*key{
			{name: "perm", kind: ints{each: whole{0, 7}, some: true}, at: at(func(l *Layer) *[]int { return &l.Perm }), required: true,
				doc: "the old axis at each new position"}}},
		{"slice", "A range of each axis.", []*key{
			{name: "start", kind: ints{each: counting, some: true}, at: at(func(l *Layer) *[]int { return &l.Start }), required: true, doc: "first index, for each axis"},
			{name: "stop", kind: ints{each: positive, some: true}, at: at(func(l *Layer) *[]int { return &l.Stop }), required: true, doc: "index after the last, for each axis"}}},
		{"layernorm", "Normalises the last axis.", []*key{&layerEps}},
		{"batchnorm", "Normalises each channel: in training over the microbatch, else by running averages.", []*key{&layerEps,
			{name: "momentum", kind: fraction, at: at(func(l *Layer) *float64 { return &l.Momentum }), def: "0.1", doc: "weight of the newest statistics in the running averages"}}},
		{"dropout", "Zeroes numbers at random in training and scales up the rest.", []*key{optional(layerRate, "0.5")}},
		{"embedding", "A learned row for each token.", []*key{
			{name: "vocab", kind: counting, at: at(func(l *Layer) *int { return &l.Vocab }), def: "0", doc: "rows; 0: as the data needs"},
			{name: "width", kind: positive, at: at(func(l *Layer) *int { return &l.Width }), required: true, doc: "numbers in a row"}}},
		{"positional_embedding", "Adds a learned row for each position.", []*key{
			{name: "context", kind: counting, at: at(func(l *Layer) *int { return &l.Context }), def: "0", doc: "rows; 0: as the data needs"}}},
		{"attention", "Causal self-attention with its projections `c_attn` and `c_proj`.", []*key{
			{name: "heads", kind: positive, at: at(func(l *Layer) *int { return &l.Heads }), required: true, doc: "attention heads; must divide the width"},
			&layerRate}},
		{"lstm", "Long short-term memory, as PyTorch's: [time, width] to [time, units].", recurrentKeys},
		{"gru", "Gated recurrent units, as PyTorch's: [time, width] to [time, units].", recurrentKeys},
		{"sum", "The sum over axes.", reduceKeys}, {"mean", "The mean over axes.", reduceKeys}, {"max", "The largest over axes.", reduceKeys},
		{"neg", "-x.", nil}, {"abs", "|x|.", nil}, {"square", "x².", nil}, {"rsqrt", "1/√x.", nil},
		{"affine", "scale·x + shift.", []*key{
			{name: "scale", kind: anyReal, at: at(func(l *Layer) *float64 { return &l.Scale }), def: "1", doc: "factor"},
			{name: "shift", kind: anyReal, at: at(func(l *Layer) *float64 { return &l.Shift }), def: "0", doc: "added after it"}}},
		{"broadcast", "The sample, repeated along axes of size 1 and along new axes in front.", []*key{
			{name: "shape", kind: ints{each: positive, some: true}, at: at(func(l *Layer) *[]int { return &l.Shape }), required: true, doc: "of a sample"}}},
		{"concat", "x and layers(x), joined along an axis.", []*key{
			{name: "axis", kind: whole{0, 7}, at: at(func(l *Layer) *int { return &l.Axis }), def: "0", doc: "the axis, from 0"},
			{name: "layers", kind: layerList{}, at: at(func(l *Layer) *[]Layer { return &l.Body }), required: true, doc: "their output is joined to x and has its size on the other axes"}}},
		{"residual", "x + layers(x).", []*key{
			{name: "layers", kind: layerList{}, at: at(func(l *Layer) *[]Layer { return &l.Body }), required: true, doc: "their output is added to x and has its shape"}}},
	},
})
