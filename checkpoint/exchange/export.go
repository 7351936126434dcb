package exchange

import (
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
	config *configs.Config
	state  runstate.State
	notes  []string
}

// note adds to Exported.Notes.
func (x *exporting) note(text string) { x.notes = append(x.notes, text) }

// export opens the checkpoint that is meant and has write export it. Where a run that trains
// meanwhile deletes it, the one that is the newest or the best then is exported.
func export(ctx context.Context, w rundir.Weights, write func(*exporting) error) (*Exported, error) {
	if w.Init != "" {
		return nil, fmt.Errorf("%w: a model is exported from a checkpoint, not from %s", errs.ErrOptions, w.Init)
	}
	w.Dir = osfile.Resolve(w.Dir)
	const rounds = 8
	for round := 1; ; round++ {
		x, err := exportNow(ctx, w, write)
		if round == rounds || w.ID != 0 || !errors.Is(err, checkpoint.ErrDeleted) {
			return x, err
		}
	}
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
	if x.state, err = runstate.Of(m); err != nil {
		return nil, err
	}
	if err := write(x); err != nil {
		return nil, err
	}
	return &Exported{w.Used(f), x.notes}, nil
}

// Export writes the model of a run's checkpoint into a new folder, in Hugging Face's
// layout. The run's model must be of the preset gpt. w.Init is not for this.
func Export(ctx context.Context, w rundir.Weights, dir string) (*Exported, error) {
	return export(ctx, w, func(x *exporting) error { return x.huggingFace(ctx, dir) })
}

// huggingFace writes a folder in Hugging Face's layout.
func (x *exporting) huggingFace(ctx context.Context, dir string) error {
	if x.config.Model.Preset != "gpt" {
		return errs.With(fmt.Errorf("the model of %s does not use the preset gpt, and only that one can be written in Hugging Face's layout; to write its weights alone, use trainer export --format safetensors", x.from), errs.ErrOptions)
	}
	model := pretrained.Model{Config: exportedConfig(x.config, &x.state.Data), Weights: x.found.Snapshot}
	switch t := x.state.Data.Tokenizer.(type) {
	case *tokenizer.BPE:
		model.Tokenizer = t
		if end, ok := t.EndOfText(); ok {
			model.Config.EndOfText = &end
		}
	case tokenizer.Bytes:
		model.Tokenizer = t.BPE()
	case *tokenizer.Chars:
		x.note("tokenizer.json is not written: characters have no form there; data.tokenizer bytes, bpe:N and gpt2 have one")
	default:
		x.note("tokenizer.json is not written: the model was not trained on a text")
	}
	return pretrained.Write(ctx, dir, model)
}

// exportedConfig describes a model that was trained on data.
func exportedConfig(c *configs.Config, info *datasets.Info) pretrained.Config {
	g := specs.GPT(c, info)
	return pretrained.Config{
		Vocab: g.Vocab, Context: g.Context, Width: g.Width, Layers: g.Layers, Heads: g.Heads,
		Activation: g.Activation, Dropout: g.Dropout, Tied: !g.Untied,
	}
}
