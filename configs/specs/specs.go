package specs

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
)

// datasetSpec describes the config's data, which must fit in the memory that is
// free now.
func datasetSpec(c *configs.Config) datasets.Spec {
	d := c.Data
	s := datasets.Spec{
		ScaleTarget: d.StandardizeTarget, UnitTarget: c.UnitTargets(), Balance: weighingOf(c).Word == balanced,
		Source: d.Source, Path: d.Path, Seed: c.Seed, Split: d.Split, Division: division(d.Division), KeepOrder: !c.Train.Shuffle,
		CSV: datasets.CSVOptions{
			Header: headers[d.Header], Task: d.Task, Standardize: d.Standardize, Ignore: d.Ignore,
		},
		SkipRows: d.SkipRows, Block: d.Memory,
		Columns:  columns.Options{Missing: d.Missing, Columns: columnOptions(d.Columns)},
		Text:     datasets.TextOptions{Context: d.Context, Tokenizer: d.Tokenizer, More: d.MorePaths, Field: d.Field, ChatTemplate: d.ChatTemplate, Truncate: d.Truncate},
		Lines:    datasets.LineOptions{Buckets: d.Buckets, Truncate: d.Truncate},
		Pictures: datasets.PictureOptions{Fit: d.Fit, Augment: augments(d.Augment), Memory: c.Devices.HostMemory},
		Tensors:  datasets.TensorOptions{Input: d.Prefix + d.Input, Target: d.Prefix + d.Target},
	}
	if free, err := host.Available(); err == nil {
		s.Memory = max(1, free)
	}
	switch {
	case d.Source == "lines":
		s.Lines.Label = d.Label
	case d.Label != "":
		s.CSV.Labels = append([]string{d.Label}, d.MoreLabels...)
	}
	if len(d.Size) == 2 {
		s.Pictures.Height, s.Pictures.Width = d.Size[0], d.Size[1]
	}
	if d.Delimiter != "" {
		s.CSV.Comma = []rune(d.Delimiter)[0]
	}
	return s
}

// division is a config's division of the data; nil without one.
func division(d *configs.Division) *datasets.Division {
	if d == nil {
		return nil
	}
	out := datasets.Division(*d)
	return &out
}

// augments are a config's changes to images.
func augments(list []configs.Augment) (out []datasets.Augment) {
	for _, x := range list {
		out = append(out, datasets.Augment(x))
	}
	return out
}

// columnOptions are those of a config's columns; nil without any.
func columnOptions(list []configs.Column) (out []columns.Option) {
	for _, c := range list {
		out = append(out, columns.Option{Name: c.Name, Kind: columns.Kind(c.Kind), Missing: c.Missing, Top: c.Top, Order: c.Order})
	}
	return out
}

// FoundColumns are a config's columns that find the kinds of data again.
func FoundColumns(list []columns.Option) (out []configs.Column) {
	for _, c := range list {
		out = append(out, configs.Column{Name: c.Name, Kind: string(c.Kind), Missing: c.Missing, Top: c.Top, Order: c.Order})
	}
	return out
}

var headers = map[string]string{"auto": datasets.HeaderAuto, "true": datasets.HeaderYes, "false": datasets.HeaderNo}

// Model describes the config's model, or the one that the program gives.
func Model(c *configs.Config, info *datasets.Info, given models.Layer) models.Spec {
	return models.Spec{
		Input: info.Inputs[0].Meta, Target: info.Target.Meta,
		Layers: modelLayers(c, info, given), Loss: c.Loss, LossKeys: c.LossKeys.Keys, Seed: c.Seed, BF16: c.Precision == "bf16",
		Classes: info.Classes, Tokens: info.Tokens, Lengths: info.Buckets != nil, Masked: info.Chats, Packed: info.Chats, Soft: c.Data.Mixes(), ClassWeights: lossWeights(c, info),
		LoRA: lora(c), Frozen: frozen[c.Adapt.Base],
	}
}

// Stored has the weights of a model that does not train lie in memory as a word of adapt.base says; "" leaves
// them as they are. An adapter's base keeps the storage beside which it was trained.
func Stored(s *models.Spec, c *configs.Config, as string) error {
	switch dtype, ok := frozen[as]; {
	case as == "" || c.Adapts() && as == c.Adapt.Base:
	case !ok && as != "float32":
		return fmt.Errorf("%w: weights as %s: give float32, bf16 or int8", errs.ErrOptions, as)
	case c.Adapts():
		return fmt.Errorf("%w: weights as %s: the adapter was trained beside a base that is stored as %s (adapt.base): leave them so, or export the run, which merges the two, and import the file",
			errs.ErrOptions, as, c.Adapt.Base)
	default:
		s.Frozen = dtype
	}
	return nil
}

// frozen are the types that adapt.base stores matrices in. A config without an adapter has none.
var frozen = map[string]shape.DType{"bf16": shape.BFloat16, "int8": shape.Int8Block}

// lora describes a config's adapter; nil if it has none.
func lora(c *configs.Config) *models.LoRA {
	if !c.Adapts() {
		return nil
	}
	l := c.Adapt.LoRA
	return &models.LoRA{Rank: l.Rank, Alpha: l.Alpha, Dropout: l.Dropout, Targets: l.Targets}
}

func position(p configs.Pos) graph.Pos { return graph.Pos{File: p.File, Line: p.Line} }

// outputs is the number of outputs of the last layer.
func outputs(info *datasets.Info) int {
	if info.Classes > 0 {
		return info.Classes
	}
	return max(1, info.Target.Meta.Elems())
}

func modelLayers(c *configs.Config, info *datasets.Info, given models.Layer) models.Stack {
	m, pos := c.Model, position(c.Model.Pos)
	out := cmp.Or(m.Outputs, outputs(info))
	switch m.Preset {
	case configs.ModelGiven:
		return ownLayers(given)
	case "mlp":
		return models.MLP(m.Hidden, m.Activation, out, pos)
	case "cnn":
		return models.CNN(m.Channels, m.Kernel, m.Hidden, m.Activation, out, pos)
	case "resnet":
		depth, _ := strconv.Atoi(m.Depth) // one of the words of the key
		return models.ResNet(models.ResNetOptions{Depth: depth, Small: m.Stem == configs.StemCIFAR, Width: m.Width, Outputs: out}, pos)
	case "vit":
		o := models.ViTOptions{Patch: m.Patch, Layers: m.Blocks, Dropout: m.Dropout, Outputs: out}
		o.Heads, o.Width = m.ViT()
		return models.ViT(o, pos)
	case "gpt":
		return models.GPT(GPT(c, info), pos)
	}
	if m.IsLlama() {
		return models.Llama(Llama(c, info), pos)
	}
	return layers(m.Layers)
}

// window is the positions of a sample; 0 where it has none.
func window(info *datasets.Info) int {
	if s := info.Inputs[0].Meta.Shape; s.Rank() > 0 {
		return s[0]
	}
	return 0
}

// Llama describes a config's model of a preset of Llama's family.
func Llama(c *configs.Config, info *datasets.Info) models.LlamaOptions {
	m, l := c.Model, c.Model.Llama
	o := models.LlamaOptions{
		Vocab: cmp.Or(m.Vocab, info.Tokens), Context: cmp.Or(m.Context, window(info)), Layers: m.Blocks,
		Heads: m.Heads, KVHeads: l.KVHeads, Size: l.HeadSize, Width: m.Width, Hidden: cmp.Or(l.Inner, (8*m.Width+3*32-1)/(3*32)*32),
		Eps: l.Eps, Theta: l.Theta, Dropout: m.Dropout, Std: l.Std, Activation: m.Activation, Untied: !m.Tied,
		Bias: l.Bias, OutBias: l.Bias && m.Preset == "llama", GateBias: l.GateBias,
	}
	if o.Activation == "gelu_pytorch_tanh" {
		o.Activation = "gelu_tanh"
	}
	if m.Preset == "mistral" || l.Windowed {
		o.Window, o.Windowed = l.Window, l.WindowFrom
	}
	switch s := l.Scaling; s.Type {
	case "linear", "llama3":
		o.Scaling = ops.RotaryScaling{Kind: s.Type, Factor: s.Factor, Low: s.Low, High: s.High, Context: s.Original}
	case "dynamic": // for texts of all positions
		if longer := float64(o.Context) / float64(cmp.Or(s.Original, o.Context)); longer > 1 {
			o.Scaling = ops.RotaryScaling{Kind: "ntk", Factor: s.Factor*longer - (s.Factor - 1)}
		}
	}
	return o
}

// GPT describes a config's model of the preset gpt.
func GPT(c *configs.Config, info *datasets.Info) models.GPTOptions {
	m := c.Model
	return models.GPTOptions{
		Vocab: cmp.Or(m.Vocab, info.Tokens), Context: cmp.Or(m.Context, window(info)),
		Layers: m.Blocks, Heads: m.Heads, Width: m.Width, Dropout: m.Dropout,
		Untied: !m.Tied, Activation: m.Activation,
	}
}

func layers(in []configs.Layer) models.Stack {
	var out models.Stack
	for _, l := range in {
		out = append(out, models.Named{Name: l.Name, Pos: position(l.Pos), Layer: models.ByName(l.Type, l.Keys, layers(l.Body))})
	}
	return out
}

// Optimizer plans the learning rate over the total steps of the run.
func Optimizer(c *configs.Config, total int) optim.Spec {
	o, s := c.Optimizer, c.Schedule
	return optim.Spec{
		Name: o.Name, Keys: o.Keys, ClipNorm: o.ClipNorm, GradNorm: c.Train.GradNorm || o.ClipNorm > 0, NoDecay: o.NoDecay, Freeze: o.Freeze, EMA: c.Train.EMA,
		Schedule: ops.LearningRate{Schedule: s.Name, Keys: s.Keys, Base: o.LR, Warmup: s.Warmup, Total: cmp.Or(s.EndsAt, total), Held: s.EndsAt > 0},
	}
}
