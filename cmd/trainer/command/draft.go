package command

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/columns"
	shown "github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// tableDraft is what a first config for a table says.
type tableDraft struct {
	name, path, delimiter string
	given                 []string              // lines of keys that --set gives
	shows                 func(key string) bool // whether a key is given, which is then written where it has its default, too
	rows                  int
	columns               []columns.Description
	labels                []columns.Description
	task                  string
	test                  float64
}

// yaml is the config, with the reason for each setting.
func (t *tableDraft) yaml() []byte {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	var names, quoted []string
	for _, d := range t.labels {
		names, quoted = append(names, d.Name), append(quoted, quote(d.Name))
	}
	label, several := quoted[0], len(names) > 1
	if several {
		label = "[" + strings.Join(quoted, ", ") + "]"
	}
	say("# Predicts %s from the other columns of a table of %s.", comment(strings.Join(names, ", ")), units.Count(t.rows, "row"))
	say("# trainer configs reference lists every key, and docs/tables.md explains what is done to columns.")
	say("name: %s", quote(t.name))
	say("data:\n  source: csv\n  path: %s\n  label: %s", quote(t.path), label)
	switch {
	case t.task == datasets.TaskMultilabel:
		say("  task: multilabel   # each label is 0 or 1")
	case t.task == datasets.TaskRegression && several:
		say("  task: regression   # each label is a number")
	case t.task == datasets.TaskRegression:
		say("  task: regression   # %s is a number", comment(names[0]))
	case t.shows("task"):
		say("  task: %s", t.task)
	}
	if t.delimiter != "" && (t.delimiter != "," || t.shows("delimiter")) {
		say("  delimiter: %s", quote(t.delimiter))
	}
	for _, line := range t.given {
		say("  %s", line)
	}
	t.split(say)
	say("  # Found in the rows that train: kind, and what becomes of it. To change a kind: columns: {NAME: category}")
	for _, d := range t.columns {
		if !slices.Contains(names, d.Name) {
			say("  #   %s: %s", comment(d.Name), becomes(&d))
		}
	}
	s := settingsFor(t.rows)
	say("\nmodel:\n  preset: mlp\n  hidden: %s", s.hidden)
	say("\ntrain:\n  epochs: %d   # at most; see early_stopping\n  batch: 32\n  watch: 1s    # shows the loss every second, for less than 20 microseconds each; without it, at the end of an epoch", s.epochs)
	say("\noptimizer:\n  name: adamw\n  lr: 0.002\n  weight_decay: %s", s.decay)
	say("\nschedule:\n  name: cosine   # the learning rate falls to 0 by the last epoch")
	switch {
	case t.task == datasets.TaskMultilabel:
		say("\n# loss: {name: bce, positive_weights: balanced}   # where the ones of a label are rare, and matter more than their share")
	case t.task == datasets.TaskClassification && t.labels[0].Kind != columns.Number:
		say("\n# loss: {name: cross_entropy, class_weights: balanced}   # where a rare class matters more than its share")
	}
	say("\nearly_stopping:\n  patience: 10   # epochs without a better validation loss")
	return []byte(b.String())
}

// tableSettings are those that depend on the number of rows.
type tableSettings struct {
	hidden, decay string
	epochs        int
}

// settingsFor gives few rows a small model and many steps, and from manyRows on a deeper one.
func settingsFor(rows int) tableSettings {
	if rows < manyRows {
		return tableSettings{"[64]   # one hidden layer; []: a linear model", "0.3   # keeps weights small, since the table has few rows", min(max(40_000/max(rows, 1), 60), 200)}
	}
	return tableSettings{"[64, 64]   # two hidden layers; []: a linear model", "0.1   # keeps weights small", min(max(6_000_000/rows, 5), 60)}
}

// manyRows is the number of rows from which a table feeds a second layer.
const manyRows = 10_000

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

// imageDraft is what a first config for a folder of images says.
type imageDraft struct {
	name, path      string
	images, classes int
	size            string // small or medium

	given []string // photos: lines of keys that --set gives
	side  string   // photos: pixels; "": those that the images have, or that given has
}

// photosYAML is the config for photos. augmented says that --set gives data.augment.
func (d *imageDraft) photosYAML(augmented bool) []byte {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	channels, hidden := "[16, 32]", "[64]"
	if d.size == "medium" {
		channels, hidden = "[32, 64, 64]", "[128]"
	}
	say("# Tells the %s of %s apart, by convolutions.", units.Count(d.classes, "class"), units.Count(d.images, "image"))
	say("# trainer configs reference lists every key, and docs/images.md explains images.")
	say("name: %s\ndata:\n  source: images   # a folder for each class\n  path: %s", quote(d.name), quote(d.path))
	if d.side != "" {
		say("  size: [%s, %s]   # height and width that the model sees", d.side, d.side)
	}
	if !augmented {
		say("  augment: [flip, {crop: 4}]   # other ones in each epoch; leave flip out where left and right matter, as in writing")
	}
	for _, line := range d.given {
		say("  %s", line)
	}
	say("  split: {val: 0.15, test: 0.15}   # val chooses the best epoch, test judges it once at the end")
	say("\nmodel:\n  preset: cnn\n  channels: %s   # of the convolutions, each with half the height and width of the one before\n  kernel: 3\n  hidden: %s", channels, hidden)
	say("\ntrain:\n  epochs: %d   # at most; see early_stopping\n  batch: 32\n  watch: 1s    # shows the loss every second; without it, at the end of an epoch", min(max(100_000/max(d.images, 1), 5), 60))
	say("\noptimizer:\n  name: adamw\n  lr: 0.001\n  weight_decay: 0.05")
	say("\nschedule:\n  name: cosine   # the learning rate falls to 0 by the last epoch")
	say("\nearly_stopping:\n  patience: 8   # epochs without a better validation loss")
	return []byte(b.String())
}

func (d *imageDraft) yaml() []byte {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	channels, hidden := "[16, 32]", "[64]"
	if d.size == "medium" {
		channels, hidden = "[32, 64]", "[128]"
	}
	say("# Tells the %s of a folder of images apart, by two convolutions.", units.Count(d.classes, "class"))
	say("# trainer configs reference lists every key.")
	say("name: %s\ndata:\n  source: mnist   # images and labels as IDX files\n  path: %s   # t10k-* validates, or a fifth where it is alone", quote(d.name), quote(d.path))
	say("\nmodel:\n  preset: cnn\n  channels: %s   # of the two convolutions\n  kernel: 3\n  hidden: %s", channels, hidden)
	say("\ntrain:\n  epochs: %d   # at most; see early_stopping\n  batch: 64\n  watch: 1s    # shows the loss every second; without it, at the end of an epoch", min(max(600_000/max(d.images, 1), 3), 60))
	say("\noptimizer:\n  name: adamw\n  lr: 0.001")
	say("\nschedule:\n  name: cosine   # the learning rate falls to 0 by the last epoch")
	say("\nearly_stopping:\n  patience: 3   # epochs without a better validation loss")
	return []byte(b.String())
}

// textDraft is what a first config for a text says.
type textDraft struct {
	name, path, field string
	bytes             int64
	tokens            string   // char or bpe; "": the tokenizer is given
	tokenizer         string   // what --set gives, as the config has it
	context           string   // what --set gives for the tokens in a sample; "": as usual
	given             []string // lines of other keys that --set gives
	size              string   // small or medium
}

func (t *textDraft) yaml() []byte {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	layers, width, context, batch, steps := 4, 128, smallContext, 16, 5000
	if t.size == "medium" {
		layers, width, context, batch, steps = 6, 384, mediumContext, 16, 3000
	}
	say("# Continues a text of %s: a small GPT.", units.Bytes(t.bytes))
	say("# trainer configs reference lists every key, and docs/text.md explains texts.")
	say("name: %s\ndata:\n  source: text\n  path: %s", quote(t.name), quote(t.path))
	if t.field != "" {
		say("  field: %s   # of each line of JSON", quote(t.field))
	}
	tokens := t.bytes
	switch {
	case t.tokens == "bpe":
		tokens /= 4 // or so
		say("  tokenizer: bpe:2048   # pieces of words, learnt from the text")
	case t.tokenizer != "":
		if t.tokenizer != "char" && t.tokenizer != "bytes" {
			tokens /= 4
		}
		say("  tokenizer: %s", quote(t.tokenizer))
	}
	if v, err := strconv.Atoi(t.context); err == nil && v > 0 {
		context = v
	}
	for _, line := range t.given {
		say("  %s", line)
	}
	say("  split: %s   # the rest validates\n  context: %s   # tokens that the model sees", textSplit(t.bytes), cmp.Or(t.context, strconv.Itoa(context)))
	say("\nmodel:\n  preset: gpt\n  layers: %d\n  heads: %d\n  width: %d\n  context: %d\n  dropout: 0.1", layers, width/32, width, context)
	// A short text is gone through 20 times, a long one in part.
	steps = int(min(max(20*tokens/int64(context*batch), 200), int64(steps)))
	boundary := steps / 20
	say("\ntrain:\n  steps: %d      # at most; see early_stopping\n  boundary: %d    # steps between validations and checkpoints\n  batch: %d\n  watch: 1s       # shows the loss every second, for less than 20 microseconds each; without it, at a boundary", steps, boundary, batch)
	say("\noptimizer:\n  name: adamw\n  lr: 0.001\n  betas: [0.9, 0.99]\n  weight_decay: 0.1\n  clip_norm: 1.0\n  no_decay: [bias, norm]")
	say("\nschedule:\n  name: cosine\n  warmup: %d\n  min_lr: 0.0001", min(100, steps/10))
	say("\nearly_stopping:\n  patience: 5   # boundaries without a better validation loss")
	return []byte(b.String())
}

// The tokens that a model of a text sees at once.
const smallContext, mediumContext = 64, 256

// leastText is the bytes that a text has at least of which a tenth validates: a window of it and
// the character behind.
func leastText(context int) int64 { return int64(10 * (context + 1)) }

// textSplit is the share of a text that trains: nine tenths, or more where a tenth would take long
// to validate.
func textSplit(size int64) string {
	if size <= 10*mostValidated {
		return "0.9"
	}
	return strconv.FormatFloat(min(1-float64(mostValidated)/float64(size), 0.999999), 'f', 6, 64)
}

// mostValidated is about the most bytes that validate.
const mostValidated = 400 << 10

// quote writes a text so that YAML reads it as it is. A string of Go is one of YAML, if it is UTF-8.
func quote(s string) string {
	if plainWord(s) {
		return s
	}
	return strconv.Quote(s)
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
