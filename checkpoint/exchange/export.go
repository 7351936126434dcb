package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/pretrained"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/errs"
)

// Exported is a model that was exported.
type Exported struct {
	Used  checkpoint.Used
	Notes []string // how it is other than its user may expect
}

// exporting is an export under way, of a checkpoint that is open.
type exporting struct {
	from   string // the run folder
	found  *rundir.Found
	config *configs.Config // of the model that is written
	then   *configs.Config // the checkpoint's
	state  runstate.State
	notes  []string
	merged *merged // the weights, where the checkpoint has an adapter; nil: it has none, or the adapter alone is meant
}

// note adds to Exported.Notes.
func (x *exporting) note(text string) { x.notes = append(x.notes, text) }

// export opens the checkpoint that is meant and has write export it. Where a run that trains
// meanwhile deletes it, the one that is the newest or the best then is exported.
func export(ctx context.Context, w rundir.Weights, write func(*exporting) error) (x *Exported, err error) {
	if w.Init != "" {
		return nil, fmt.Errorf("%w: a model is exported from a checkpoint, not from %s", errs.ErrOptions, w.Init)
	}
	w.Dir = osfile.Resolve(w.Dir)
	if w.ID != 0 {
		return exportNow(ctx, w, write)
	}
	err = checkpoint.UntilRead(func() error {
		x, err = exportNow(ctx, w, write)
		return err
	})
	return x, err
}

// exportNow is export of the checkpoint that is meant now.
func exportNow(ctx context.Context, w rundir.Weights, write func(*exporting) error) (_ *Exported, err error) {
	f, err := rundir.Find(ctx, w)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	x := &exporting{from: w.Dir, found: f}
	m := &f.Snapshot.Manifest
	if x.config, err = configs.Parse(fmt.Sprintf("the config of checkpoint %d", m.ID), m.Config, configs.Overlay{}); err != nil {
		return nil, err
	}
	x.then = x.config
	if x.state, err = runstate.Of(m); err != nil {
		return nil, err
	}
	if err := write(x); err != nil {
		return nil, err
	}
	return &Exported{w.Used(f), x.notes}, nil
}

// Export writes the model of a run's checkpoint into a new folder, in Hugging Face's
// layout. The run's model must be of the preset gpt, llama, mistral or qwen2. w.Init is not for this.
func Export(ctx context.Context, w rundir.Weights, dir string) (*Exported, error) {
	return export(ctx, w, whole(ctx, func(x *exporting) error { return x.huggingFace(ctx, dir) }))
}

// whole is an export of the whole model: an adapter is merged into its base.
func whole(ctx context.Context, write func(*exporting) error) func(*exporting) error {
	return func(x *exporting) (err error) {
		if !x.config.Adapts() {
			return write(x)
		}
		if x.merged, x.config, err = merge(ctx, x.found.Snapshot, x.config, &x.state); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, x.merged.close()) }()
		return write(x)
	}
}

// huggingFace writes a folder in Hugging Face's layout.
func (x *exporting) huggingFace(ctx context.Context, dir string) error {
	switch m := x.config.Model; {
	case m.Preset != "gpt" && !m.IsLlama():
		return errs.With(fmt.Errorf("the model of %s uses none of the presets gpt, llama, mistral and qwen2, and only those can be written in Hugging Face's layout; to write its weights alone, use trainer export --format safetensors", x.from), errs.ErrOptions)
	case m.Preset == "qwen2" && !m.Llama.Bias:
		return errs.With(fmt.Errorf("the model of %s has model.attention_bias: false, and Hugging Face's layout has no qwen2 without these biases; to write its weights alone, use trainer export --format safetensors", x.from), errs.ErrOptions)
	case m.Llama.Scaling.Type == "dynamic" && m.Llama.Scaling.Original > 0:
		return errs.With(fmt.Errorf("the model of %s has model.rope_scaling.original_max_position_embeddings with rope_type dynamic, and Hugging Face's layout has no such; to write its weights alone, use trainer export --format safetensors", x.from), errs.ErrOptions)
	}
	model := pretrained.Model{Config: exportedConfig(x.config, &x.state.Data), Weights: x.found.Snapshot}
	if x.merged != nil {
		model.Instead = x.merged
	}
	switch t := x.state.Data.Tokenizer.(type) {
	case *tokenizer.BPE:
		model.Tokenizer = t
	case tokenizer.Bytes:
		model.Tokenizer = t.BPE()
	case *tokenizer.Chars:
		x.note("tokenizer.json is not written: characters have no form there; data.tokenizer bytes, bpe:N and gpt2 have one")
	default:
		x.note("tokenizer.json is not written: the model was not trained on a text")
	}
	if model.Tokenizer != nil {
		if err := exportTexts(ctx, &model, &x.state.Data, model.Tokenizer); err != nil {
			return err
		}
	}
	return pretrained.Write(ctx, dir, model)
}

// exportedConfig describes a model that was trained on data.
func exportedConfig(c *configs.Config, info *datasets.Info) pretrained.Config {
	if c.Model.IsLlama() {
		return exportedLlama(c, info)
	}
	g := specs.GPT(c, info)
	return pretrained.Config{
		Family: pretrained.GPT2, Vocab: g.Vocab, Context: g.Context, Width: g.Width, Layers: g.Layers, Heads: g.Heads,
		Activation: g.Activation, Dropout: g.Dropout, Tied: !g.Untied,
	}
}

// exportedLlama is exportedConfig for a preset of Llama's family.
func exportedLlama(c *configs.Config, info *datasets.Info) pretrained.Config {
	o, l := specs.Llama(c, info), c.Model.Llama
	s := l.Scaling
	return pretrained.Config{
		Family: c.Model.Preset, Vocab: o.Vocab, Context: o.Context, Width: o.Width, Layers: o.Layers, Heads: o.Heads,
		Activation: c.Model.Activation, Dropout: o.Dropout, Tied: !o.Untied,
		Llama: pretrained.LlamaConfig{
			KVHeads: cmp.Or(o.KVHeads, o.Heads), HeadSize: cmp.Or(o.Size, o.Width/o.Heads), Inner: o.Hidden, Eps: o.Eps, Theta: o.Theta, Std: o.Std,
			Rope: pretrained.Rope{Type: s.Type, Factor: s.Factor, Low: s.Low, High: s.High, Original: s.Original},
			Bias: l.Bias, GateBias: l.GateBias, Windowed: l.Windowed, Window: l.Window, WindowFrom: l.WindowFrom,
		},
	}
}
