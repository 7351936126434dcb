package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/pretrained"
	"github.com/berth-ml/berth/checkpoint/restore"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/stop"
)

// ImportOptions are the options of Import.
type ImportOptions struct {
	// Name is the config's; "": the name of the run folder.
	Name string
	// Overlay has values for the config, such as data.path. Those of the model are
	// refused.
	Overlay configs.Overlay
	// Progress hears how much of the weights was read, from 0 to 1; nil for nobody.
	Progress func(share float64)
}

// Imported is an imported model.
type Imported struct {
	Config     *configs.Config
	Parameters int64
	Notes      []string // how it is other than its user may expect
}

// Import makes a run folder of a GPT-2, Llama, Mistral or Qwen2 in Hugging Face's layout: a folder with
// config.json, model.safetensors (or an index of several) and tokenizer.json (or
// vocab.json and merges.txt). The run has one checkpoint, of step 0, so that it
// evaluates and predicts, and a resumed run trains it further on the text that
// data.path then names. The run folder has config.yaml, checkpoints.db, unless the tokenizer is
// GPT-2's tokenizer.json and, if the model has a chat template or special tokens, tokenizer_config.json; one that holds a run is
// refused. After an error, nothing of it is left.
//
// A from that ends in .safetensors is a file that ExportSafetensors wrote: the run has its
// weights, its config and what was fitted to its data.
func Import(ctx context.Context, from, dir string, o ImportOptions) (_ *Imported, err error) {
	dir = osfile.Resolve(dir)
	if err := rundir.CheckFolder(dir, rundir.Begin); err != nil {
		return nil, err
	}
	if strings.HasSuffix(from, ".safetensors") {
		return importFile(ctx, from, dir, o)
	}
	model, err := pretrained.Open(ctx, from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	x := &importing{ctx: ctx, model: model, from: osfile.Resolve(from), dir: dir, opt: o}
	if err := x.configure(); err != nil {
		return nil, err
	}
	if err := x.openWeights(); err != nil {
		return nil, err
	}
	if err := x.save(); err != nil {
		return nil, err
	}
	return &Imported{x.config, x.bytes / 4, model.Notes}, nil
}

// importing is an import in progress.
type importing struct {
	ctx     context.Context
	model   *pretrained.Folder
	from    string // the model's folder
	dir     string // the run folder
	opt     ImportOptions
	config  *configs.Config
	info    datasets.Info
	weights *pretrained.Weights
	bytes   int64 // of all parameters
	read    int64 // bytes of them so far
}

// tuning is the config of an imported model but for the model: steps of 2,048 tokens
// that fit into memory with the weights, with a learning rate that keeps what was learnt.
const tuning = `
data: {source: text, path: ""}
model: {preset: %s}
train: {epochs: 1, boundary: 100, batch: 8, microbatches: 4}
optimizer: {name: adamw, lr: 3e-05, betas: [0.9, 0.95], weight_decay: 0.1, clip_norm: 1, no_decay: [bias, norm]}
`

// mostWindow is the longest window that a config begins with, in tokens. A shorter
// text makes a sample, and a step takes less memory; data.context raises it.
const mostWindow = 256

// configure makes the config.
func (x *importing) configure() error {
	m, tokens := x.model.Config, x.model.Tokenizer
	preset := m.Family
	if preset == pretrained.GPT2 {
		preset = "gpt"
	}
	base, err := configs.Parse(x.dir, fmt.Appendf(nil, tuning, preset), configs.Overlay{})
	if err != nil {
		return err
	}
	base.Model.Blocks, base.Model.Heads, base.Model.Width, base.Model.Context, base.Model.Vocab = m.Layers, m.Heads, m.Width, m.Context, m.Vocab
	base.Model.Dropout, base.Model.Tied, base.Model.Activation = m.Dropout, m.Tied, m.Activation
	if l := m.Llama; m.Family != pretrained.GPT2 {
		base.Model.Llama = configs.Llama{
			KVHeads: l.KVHeads, HeadSize: l.HeadSize, Inner: l.Inner, Eps: l.Eps, Theta: l.Theta, Std: l.Std,
			Scaling: configs.RopeScaling{Type: l.Rope.Type, Factor: l.Rope.Factor, Low: l.Rope.Low, High: l.Rope.High, Original: l.Rope.Original},
			Bias:    l.Bias, GateBias: l.GateBias, Windowed: l.Windowed, Window: l.Window, WindowFrom: l.WindowFrom,
		}
	}
	base.Data.Context = min(m.Context, mostWindow)
	if base.Data.Tokenizer = tokens.Kind(); base.Data.Tokenizer != "gpt2" {
		base.Data.Tokenizer = filepath.Join(x.dir, rundir.TokenizerName)
	}
	if x.config, err = imported(base, x.dir, x.opt); err != nil {
		return err
	}
	format, err := datasets.ReadChat(x.from)
	if err != nil {
		return fmt.Errorf("%w: %w", pretrained.ErrFormat, err)
	}
	if format, err = datasets.WithBegin(x.ctx, x.from, format, tokens); err != nil {
		return fmt.Errorf("%w: %w", pretrained.ErrFormat, err)
	}
	if format = format.Within(m.Vocab); format != nil {
		x.model.Notes = append(x.model.Notes, format.Notes...)
	}
	x.info = restore.ImportedInfo(tokens, format, x.config.Data.Context)
	return nil
}

// imported is the config of an imported model, in the folder dir, with the values that the
// options have for it.
func imported(c *configs.Config, dir string, o ImportOptions) (*configs.Config, error) {
	if c.Name = o.Name; c.Name == "" {
		c.Name = configs.NameOf(dir + ".yaml")
	}
	text, err := c.Kept()
	if err != nil {
		return nil, err
	}
	c, err = configs.Parse("the config of "+dir, text, o.Overlay)
	if err != nil {
		return nil, err
	}
	now, err := c.Kept()
	if err != nil {
		return nil, err
	}
	list, err := configs.Changes(text, now)
	if err != nil {
		return nil, err
	}
	if list = restore.OfModel(list); len(list) > 0 && longer(list) {
		return nil, fmt.Errorf("%w: %s: %s", errs.ErrOptions, configs.SummaryOfChanges(list), longerCure(c))
	}
	if len(list) > 0 {
		return nil, fmt.Errorf("%w: %s: this is part of the imported model and cannot be changed; leave it out", errs.ErrOptions, configs.SummaryOfChanges(list))
	}
	return c, nil
}

// longer reports whether the change of a model is but that of its context.
func longer(list []configs.Change) bool {
	return len(list) == 1 && (list[0].Key == "model.context" || list[0].Key == "model.max_position_embeddings")
}

// longerCure says what to do for texts that are longer than the context of an imported model.
func longerCure(c *configs.Config) string {
	if c.Model.IsLlama() {
		return fmt.Sprintf("the weights were trained with that many positions; import the model without the key, and train it to read more with trainer resume RUN --set model.max_position_embeddings=%[1]d --set data.context=%[1]d --allow-changed", c.Model.Context)
	}
	return "the weights have a table of that many positions, which does not grow; leave the key out, and give data.context at most as many tokens"
}

// openWeights checks the weights against the model's parameters.
func (x *importing) openWeights() (err error) {
	g, err := models.Predict(specs.Model(x.config, &x.info, nil), models.Size{Microbatch: 1, Stop: stop.Of(x.ctx)})
	if err != nil {
		return err
	}
	var want []checkpoint.Tensor
	for _, v := range g.Vars {
		if v.Role == graph.Parameter {
			want = append(want, checkpoint.Tensor{Name: v.Name, Meta: v.Meta, Role: v.Role.String()})
			x.bytes += v.Meta.Bytes()
		}
	}
	x.weights, err = x.model.Weights(want, x.tell)
	return err
}

// tell tells of bytes that were read.
func (x *importing) tell(bytes int) {
	x.read += int64(bytes)
	if x.opt.Progress != nil {
		x.opt.Progress(float64(x.read) / float64(x.bytes))
	}
}

// save makes the run folder.
func (x *importing) save() (err error) {
	m, err := x.manifest()
	if err != nil {
		return err
	}
	settings, err := x.info.Chat.File()
	if err != nil {
		return err
	}
	var tokens []byte
	if x.model.Tokenizer.Kind() != "gpt2" {
		var text bytes.Buffer
		if err := x.model.Tokenizer.Write(&text); err != nil {
			return err
		}
		tokens = text.Bytes()
	}
	return fill(x.ctx, x.dir, m, tokens, settings, x.weights)
}

// fill makes a run folder with one checkpoint, and a tokenizer and its settings unless they are nil.
func fill(ctx context.Context, dir string, m checkpoint.Manifest, tokens, settings []byte, weights checkpoint.Source) (err error) {
	folder, err := rundir.Open(ctx, dir, rundir.OpenOptions{Mode: rundir.Begin})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	return folder.Fill(m.Config, tokens, settings, func(db *checkpoint.DB) error {
		_, err := db.Save(ctx, m, weights)
		return err
	})
}

// manifest describes the checkpoint.
func (x *importing) manifest() (m checkpoint.Manifest, err error) {
	if m.Config, err = x.config.Kept(); err != nil {
		return m, err
	}
	if m.Fingerprints, err = restore.ImportedPrints(x.config); err != nil {
		return m, err
	}
	m.Extra, err = json.Marshal(runstate.State{Data: x.info})
	return m, err
}
