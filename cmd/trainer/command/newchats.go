package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/osfile"
	shown "github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// conversations reports whether the data is a file of conversations: JSON lines with a list of messages. It gives
// their key, and their number, at most enoughChats.
func (n *starter) conversations(ctx context.Context) (field string, lines int, err error) {
	name := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(n.path), ".gz"), ".zst")
	st, err := os.Stat(n.path)
	if err != nil || !st.Mode().IsRegular() || !slices.Contains([]string{".jsonl", ".ndjson", ".json"}, filepath.Ext(name)) {
		return "", 0, nil
	}
	return datasets.Conversations(ctx, n.path, enoughChats)
}

// enoughChats is the number of conversations from which a tenth of them validates.
const enoughChats = 100

// chats asks about conversations, and writes their config.
func (n *starter) chats(ctx context.Context, field string, lines int) ([]byte, error) {
	number := units.Count(lines, "conversation")
	if lines == enoughChats {
		number += " or more"
	}
	fmt.Fprintf(console.NewProse(n.command.OutOrStdout()), "%s: %s, in %s\n", shown.Printed(n.path), number, typed(field))
	d := chatDraft{name: nameOfData(n.out), path: n.pathThere(), field: field, few: lines < enoughChats, tokenizer: n.value("data.tokenizer")}
	for _, line := range n.given() {
		if key, _, _ := strings.Cut(line, ":"); key == "context" {
			d.context = strings.TrimSpace(line[len(key)+1:])
		} else if key != "tokenizer" && key != "field" {
			d.given = append(d.given, line)
		}
	}
	if d.tokenizer == "" {
		const question = "Which folder has the tokenizer and the chat template: an imported model's run, or any other?"
		if n.yes {
			return nil, cli.Usagef("%s has conversations, which a tokenizer and a chat template make text of: name the folder that has them by --set data.tokenizer=FOLDER, such as the run of an imported model", shown.Printed(n.path))
		}
		var err error
		if d.tokenizer, err = n.ask(ctx, question, "runs/NAME", isFolder); err != nil {
			return nil, err
		}
	}
	if rundir.IsRun(osfile.Resolve(d.tokenizer)) {
		n.next = fmt.Sprintf("trainer export %s --out base.safetensors\nthen: trainer train %s --init base.safetensors", d.tokenizer, n.out)
		if err := d.tunes(d.tokenizer); err != nil {
			return nil, err
		}
	}
	if d.named {
		return d.yaml(), nil
	}
	var err error
	d.tokenizer, err = n.fromConfig(d.tokenizer)
	return d.yaml(), err
}

func isFolder(path string) error {
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		return fmt.Errorf("%s: expected a folder, such as one that trainer import has made", path)
	}
	return nil
}

// value is what --set gives for a key; "" without it.
func (n *starter) value(key string) (value string) {
	for _, pair := range n.set {
		if k, v, _ := strings.Cut(pair, "="); k == key {
			value = v
		}
	}
	return value
}

// chatDraft is what a first config for conversations says.
type chatDraft struct {
	name, path, field, tokenizer string
	named                        bool     // the tokenizer is a name, such as gpt2, and no path
	context                      string   // tokens; "": as usual
	given                        []string // lines of keys that --set gives
	few                          bool     // there are not enough to validate with some
	model                        string   // the section of the model that is tuned; "": a small one begins from nothing
}

// tunes takes the model of a run.
func (d *chatDraft) tunes(run string) error {
	path := filepath.Join(run, rundir.ConfigName)
	text, err := osfile.Read(path, configs.MaxFile)
	if err != nil {
		return cli.Usage(err)
	}
	c, err := configs.Parse(path, text, configs.Overlay{})
	if err != nil {
		return cli.Usage(err)
	}
	if c.Adapts() {
		return cli.Usagef("the model of %s is an adapter beside a base: merge the two by trainer export %[1]s --format hf --out FOLDER, import that, and name its run", run)
	}
	if _, err := os.Stat(filepath.Join(run, rundir.TokenizerName)); err != nil && c.Data.TokenizerFile() == "" {
		d.tokenizer, d.named = c.Data.Tokenizer, true
	}
	if text, err = c.Kept(); err != nil {
		return err
	}
	_, section, _ := strings.Cut(string(text), "\nmodel:\n")
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, " ") {
			break
		}
		d.model += line
	}
	if most := c.Model.Context; d.context == "" && most > 0 {
		d.context = fmt.Sprint(min(most, usualChat))
	}
	return nil
}

// usualChat is the tokens of a sample of conversations.
const usualChat = 1024

func (d *chatDraft) yaml() []byte {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if d.model != "" {
		say("# Teaches an imported model to answer as in conversations, by an adapter (LoRA) beside its weights.")
	} else {
		say("# Learns to answer as in conversations: a small Llama, from nothing.")
	}
	say("# trainer configs reference lists every key, and docs/text.md explains conversations and adapters.")
	say("name: %s\ndata:\n  source: text\n  path: %s\n  field: %s   # of each line of JSON: its list of messages", quote(d.name), quote(d.path), quote(d.field))
	say("  tokenizer: %s%s", quote(d.tokenizer), map[bool]string{false: "   # the folder with the tokenizer and its chat template"}[d.named])
	context := d.context
	if context == "" {
		context = fmt.Sprint(smallChat)
	}
	say("  context: %s   # tokens in a sample, which short conversations share", context)
	if !slices.ContainsFunc(d.given, func(line string) bool { return strings.HasPrefix(line, "truncate:") }) {
		say("  truncate: true   # cut longer conversations off")
	}
	for _, line := range d.given {
		say("  %s", line)
	}
	if d.few {
		say("  split: 1   # all train; with more conversations 0.9, and the rest validates")
	} else {
		say("  split: 0.9   # the rest validates")
	}
	epochs, rate := 3, "0.0002"
	if d.model != "" {
		say("\nmodel:   # of the run, as it is\n%s", strings.TrimSuffix(d.model, "\n"))
		say("\nadapt:\n  lora: {rank: 8, alpha: 16, targets: [%s]}   # of the attention; more targets learn more, and take more time", targetsOf(d.model))
	} else {
		epochs, rate = 20, "0.001"
		say("\nmodel:\n  preset: llama\n  num_hidden_layers: 4\n  hidden_size: 128\n  num_attention_heads: 4\n  num_key_value_heads: 2\n  max_position_embeddings: %s", context)
	}
	say("\ntrain:\n  epochs: %d\n  batch: 8\n  microbatches: 4   # fewer take less time and more memory\n  watch: 1s   # shows the loss every second", epochs)
	say("\noptimizer:\n  name: adamw\n  lr: %s\n  clip_norm: 1.0", rate)
	say("\nschedule:\n  name: cosine   # the learning rate falls to 0 by the last epoch")
	return []byte(b.String())
}

// smallChat is the tokens of a sample for a small model.
const smallChat = 256

// targetsOf are the projections that an adapter is for.
func targetsOf(model string) string {
	if strings.Contains(model, "preset: gpt\n") {
		return `"attn.*"`
	}
	return "q, v"
}
