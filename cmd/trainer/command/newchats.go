package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/engine/osfile"
	shown "github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// lineField is the key of JSON lines, a file or a folder of them, that --set gives or that has conversations;
// "" for other data. chats is the number of conversations, at most enoughChats; 0: the key is of another text.
func (n *starter) lineField(ctx context.Context) (field string, chats int, err error) {
	if !n.hasLines() {
		return "", 0, nil
	}
	k, err := datasets.KeysOfLines(ctx, n.path, enoughChats)
	if err != nil {
		return "", 0, cli.Usage(err)
	}
	field = n.value("data.field")
	switch {
	case field == "" && len(k.Chats) > 0:
		if field = k.Chat(); field == "" {
			return "", 0, cli.Usagef("%s has conversations in several keys of a line, %s: name one by --set data.field=%s", shown.Printed(n.path), strings.Join(k.Chats, ", "), k.Chats[0])
		}
		return field, k.Lines, nil
	case field == "" && len(k.Foreign) > 0:
		return "", 0, n.foreign(k.Foreign[0])
	case field == "" || len(k.All) == 0:
		return "", 0, nil
	case slices.Contains(k.Chats, field):
		return field, k.Lines, nil
	case slices.Contains(k.Foreign, field):
		return "", 0, n.foreign(field)
	case !slices.Contains(k.All, field):
		hint := ""
		if near := columns.Meant(field, k.All); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		return "", 0, cli.Usagef("--set data.field=%s: there is no key %q in the first line of %s, whose keys are %s%s", field, field, shown.Printed(n.path), strings.Join(k.All, ", "), hint)
	}
	return field, 0, nil
}

// hasLines reports whether the data is a file of JSON lines by its name, or a folder that has some and no images.
func (n *starter) hasLines() bool {
	st, err := os.Stat(n.path)
	switch {
	case err != nil:
		return false
	case st.IsDir():
		return (holds(n.path, "*.jsonl*") || holds(n.path, "*.ndjson*")) && !holdsImages(n.path)
	}
	name := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(n.path), ".gz"), ".zst")
	return st.Mode().IsRegular() && slices.Contains([]string{".jsonl", ".ndjson", ".json"}, filepath.Ext(name))
}

// foreign refuses conversations of ShareGPT's layout.
func (n *starter) foreign(field string) error {
	return cli.Usagef("%s: %q is a list of objects with from and value, as ShareGPT has them: role and content are expected: {\"role\": \"user\", \"content\": \"…\"} for {\"from\": \"human\", \"value\": \"…\"}, and assistant for gpt", shown.Printed(n.path), field)
}

// enoughChats is the number of conversations from which a tenth of them validates.
const enoughChats = 100

// chats asks about conversations, and writes their config.
func (n *starter) chats(ctx context.Context, cfg *configs.Config, lines int) ([]byte, error) {
	number := units.Count(lines, "conversation")
	if lines == enoughChats {
		number += " or more"
	}
	field := cfg.Data.Field
	out := console.NewProse(n.command.OutOrStdout())
	fmt.Fprintf(out, "%s: %s, in %s\n", shown.Printed(n.path), number, typed(field))
	given, err := n.given("field", "tokenizer", "context")
	if err != nil {
		return nil, err
	}
	d := chatDraft{name: nameOfData(n.out), path: n.pathThere(), field: field, few: lines < enoughChats, given: given, context: n.window(cfg), tokenizer: n.value("data.tokenizer")}
	if d.tokenizer == "" {
		if n.yes {
			return nil, cli.Usagef("%s has conversations, which a tokenizer and a chat template make text of: name the folder that has them by --set data.tokenizer=FOLDER, such as the run of an imported model", shown.Printed(n.path))
		}
		const question = "Which folder has the tokenizer and the chat template: an imported model's run, such as runs/NAME, or any other?"
		if d.tokenizer, err = n.ask(ctx, question, "", isFolder); err != nil {
			return nil, err
		}
	}
	if !isTokenizerName(d.tokenizer) && rundir.IsRun(osfile.Resolve(d.tokenizer)) {
		n.next = fmt.Sprintf("trainer export %s --out base.safetensors\nthen: trainer train %s --init base.safetensors", d.tokenizer, n.out)
		if err := d.tunes(d.tokenizer); err != nil {
			return nil, err
		}
	} else {
		fmt.Fprintln(out, fromNothing(d.tokenizer))
	}
	if d.named = d.named || isTokenizerName(d.tokenizer); d.named {
		return d.yaml(), nil
	}
	d.tokenizer, err = n.fromConfig(d.tokenizer)
	return d.yaml(), err
}

// fromNothing says that a model begins with random weights, and how it would go on from those of a model whose
// tokenizer is of a folder.
func fromNothing(tokenizer string) string {
	const begins = "This is a small model that begins from nothing"
	if isTokenizerName(tokenizer) || isFolder(tokenizer) != nil {
		return begins + "."
	}
	return fmt.Sprintf("%s: to go on from the weights of a model in %s, first run `trainer import %[2]s`, and name the run that it makes by --set data.tokenizer=RUN.", begins, tokenizer)
}

func isFolder(path string) error {
	if path == "" {
		return errors.New("give the path of a folder, such as one that trainer import has made")
	}
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
	context := cmp.Or(d.context, strconv.Itoa(smallChat))
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
		if context == "0" {
			context = strconv.Itoa(smallChat)
		}
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
