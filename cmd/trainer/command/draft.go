package command

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/berth-ml/berth/datasets/columns"
	shown "github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// tableDraft is what a first config for a table says.
type tableDraft struct {
	name, path, delimiter string
	rows                  int
	columns               []columns.Description
	label                 columns.Description
	task                  string // classes or number
	test                  float64
}

// yaml is the config, with the reason for each setting.
func (t *tableDraft) yaml() []byte {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# Predicts %s from the other columns of a table of %s.", comment(t.label.Name), units.Count(t.rows, "row"))
	say("# docs/tables.md explains what is done to columns, and docs/config.md every key.")
	say("name: %s", quote(t.name))
	say("data:\n  source: csv\n  path: %s\n  label: %s", quote(t.path), quote(t.label.Name))
	if t.task == "number" {
		say("  task: regression   # %s is a number", comment(t.label.Name))
	}
	if t.delimiter != "" && t.delimiter != "," {
		say("  delimiter: %s", quote(t.delimiter))
	}
	t.split(say)
	say("  # Found in the rows: kind, and what becomes of it. To change a kind: columns: {NAME: category}")
	for _, d := range t.columns {
		if d.Name != t.label.Name {
			say("  #   %s: %s", comment(d.Name), becomes(&d))
		}
	}
	say("\nmodel:\n  preset: mlp\n  hidden: [32]   # one hidden layer; []: a linear model")
	epochs := min(max(300_000/max(t.rows, 1), 10), 60)
	say("\ntrain:\n  epochs: %d   # at most; see early_stopping\n  batch: 32\n  watch: 1s    # shows the loss every second, for a few microseconds each; without it, at the end of an epoch", epochs)
	say("\noptimizer:\n  name: adamw\n  lr: 0.005\n  weight_decay: 0.1   # keeps weights small, since tables have few rows")
	say("\nschedule:\n  name: cosine   # the learning rate falls to 0 by the last epoch")
	if t.task == "classes" && t.label.Kind != columns.Number {
		say("\n# loss: {name: cross_entropy, class_weights: balanced}   # where a rare class matters more than its share")
	}
	say("\nearly_stopping:\n  patience: 10   # epochs without a better validation loss")
	return []byte(b.String())
}

func (t *tableDraft) split(say func(string, ...any)) {
	switch {
	case t.test > 0:
		say("  split: {val: 0.15, test: %g}   # val chooses the best epoch, test judges it once at the end", t.test)
	default:
		say("  split: {val: 0.15}   # chooses the best epoch")
	}
}

// becomes says what becomes of a column.
func becomes(d *columns.Description) string {
	if d.Features == 0 {
		return fmt.Sprintf("%s, left out", d.Kind)
	}
	return fmt.Sprintf("%s, %s", d.Kind, units.Count(d.Features, "feature"))
}

// textDraft is what a first config for a text says.
type textDraft struct {
	name, path, field string
	bytes             int64
	tokens            string // char or bpe
	size              string // small or medium
}

func (t *textDraft) yaml() []byte {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	layers, width, context, batch := 4, 128, 64, 16
	if t.size == "medium" {
		layers, width, context, batch = 6, 384, 256, 16
	}
	say("# Continues a text of %s: a small GPT.", units.Bytes(t.bytes))
	say("# docs/text.md explains texts, and docs/config.md every key.")
	say("name: %s\ndata:\n  source: text\n  path: %s", quote(t.name), quote(t.path))
	if t.field != "" {
		say("  field: %s   # of each line of JSON", quote(t.field))
	}
	if t.tokens == "bpe" {
		say("  tokenizer: bpe:2048   # pieces of words, learnt from the text")
	}
	say("  split: 0.9   # the rest validates\n  context: %d   # tokens that the model sees", context)
	say("\nmodel:\n  preset: gpt\n  layers: %d\n  heads: %d\n  width: %d\n  context: %d\n  dropout: 0.1", layers, width/32, width, context)
	epochs, boundary, warmup := 2, "\n  boundary: 500   # steps between validations and checkpoints", 100
	if t.bytes < shortText { // fewer steps than that in an epoch
		epochs, boundary, warmup = 20, "", 0
	}
	say("\ntrain:\n  epochs: %d%s\n  batch: %d\n  watch: 1s       # shows the loss every second, for a few microseconds each; without it, at a boundary", epochs, boundary, batch)
	say("\noptimizer:\n  name: adamw\n  lr: 0.001\n  betas: [0.9, 0.99]\n  weight_decay: 0.1\n  clip_norm: 1.0\n  no_decay: [bias, norm]")
	say("\nschedule:\n  name: cosine\n  warmup: %d\n  min_lr: 0.0001", warmup)
	return []byte(b.String())
}

// shortText is the size in bytes up to which a text is gone through more often.
const shortText = 1 << 20

// quote writes a text so that YAML reads it as it is. A JSON string is one of YAML.
func quote(s string) string {
	if plainWord(s) {
		return s
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return string(text)
}

// plainWord reports whether YAML reads a word as a text without quotes.
func plainWord(s string) bool {
	for i, r := range s {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_'
		if !letter && (i == 0 || !('0' <= r && r <= '9' || r == '-' || r == '.' || r == '/')) {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}

// comment writes a text on a line of its own.
func comment(s string) string { return strings.Join(strings.Fields(shown.Printed(s)), " ") }
