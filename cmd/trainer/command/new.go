package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/columns"
	shown "github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

func newCommand(stop *signals.Stop) *cobra.Command {
	n := starter{stop: stop}
	c := &cobra.Command{
		Use:   "new FILE",
		Short: "Write a first config for your own data",
		Long: "Look at a table (.csv, .tsv, .jsonl, .parquet), a text (a file or a folder), conversations (.jsonl with lists of messages) or a folder of images (with a folder for each class, or of IDX files), ask at most three questions, and write a config that trains on it: FILE's name with .yaml, in the working folder. Its comments say why each setting is there.\n" +
			"\n" +
			"A file that is there already is never overwritten.",
		Example: "  trainer new churn.csv\n  trainer new churn.csv --yes --out first.yaml\n  trainer new novels/\n  trainer new chats.jsonl --set data.tokenizer=runs/llama\n  trainer new photos/",
		Args:    cli.Args(1),
	}
	c.Flags().BoolVar(&n.yes, "yes", false, "ask nothing: take the defaults, which are printed")
	c.Flags().StringVar(&n.out, "out", "", "write the config to `FILE.yaml`")
	c.Flags().StringArrayVar(&n.set, "set", nil, "set a key of the data, which the config then has: `KEY=VALUE`, such as data.label=price; can be repeated")
	c.RunE = func(c *cobra.Command, args []string) error {
		n.command, n.path = c, args[0]
		return n.run(c.Context())
	}
	return c
}

// starter writes a first config.
type starter struct {
	command *cobra.Command
	stop    *signals.Stop
	path    string // of the data
	out     string // of the config
	yes     bool
	set     []string      // keys of the data, KEY=VALUE
	lines   *bufio.Reader // of the answers
	next    string        // what to do next, if that is more than to train the config
}

func (n *starter) run(ctx context.Context) error {
	if err := n.check(); err != nil {
		return err
	}
	field, lines, err := n.lineField(ctx)
	if err != nil {
		return err
	}
	text := fmt.Appendf(nil, "data: {path: %s, source: text, split: 1, field: %s}\nmodel: {preset: gpt, layers: 1, heads: 1, width: 8}\n", quote(n.path), quote(field))
	if field == "" {
		st, err := os.Stat(n.path)
		if text, err = fileConfig(ctx, n.path, err == nil && st.IsDir()); err != nil {
			return err
		}
	}
	cfg, err := readAs(ctx, text, configs.Overlay{Set: n.set})
	if err != nil {
		return err
	}
	yaml, err := n.draft(ctx, cfg, lines)
	if err != nil {
		return err
	}
	return n.write(ctx, yaml)
}

// draft asks about the data, and writes its config. chats is the number of conversations; 0: it has none.
func (n *starter) draft(ctx context.Context, cfg *configs.Config, chats int) ([]byte, error) {
	if chats > 0 {
		return n.chats(ctx, cfg, chats)
	}
	switch cfg.Data.Source {
	case "csv":
		return n.table(ctx, cfg)
	case "text":
		return n.text(ctx, cfg)
	case "mnist":
		return n.images(ctx, cfg)
	case "images":
		return n.photos(ctx, cfg)
	}
	return nil, cli.Usagef("%s: trainer new knows tables, texts and images; docs/config.md has the keys of data.source: %s", n.path, cfg.Data.Source)
}

// check refuses what cannot end well before anything is asked.
func (n *starter) check() error {
	if _, err := os.Stat(n.path); err != nil && !isPattern(n.path) {
		return unread(n.path, err)
	}
	if n.out == "" {
		n.out = nameOfData(n.path) + ".yaml"
	}
	if _, err := os.Lstat(n.out); !errors.Is(err, fs.ErrNotExist) {
		return cli.Usagef("%s is there already, and is never overwritten: name another file with --out", n.out)
	}
	if !n.yes && !console.IsTerminal(n.command.InOrStdin()) {
		return cli.Usagef("%s: nobody can answer questions about it here, since standard input is no terminal: give --yes for the defaults", shown.Printed(n.path))
	}
	for i, pair := range n.set {
		key, value, _ := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		n.set[i] = key + "=" + value
		switch {
		case !strings.Contains(pair, "="):
			return cli.Usagef("--set %s: expected KEY=VALUE, such as data.label=price", pair)
		case key == "data.path":
			return cli.Usagef("--set %s: the path of the data is FILE itself: trainer new %s", pair, value)
		case key == "data.source":
			return cli.Usagef("--set %s: trainer new finds data.source by the contents of FILE, and takes other keys of the data: write another source into the config", pair)
		case key == "data.split" || strings.HasPrefix(key, "data.split."):
			return cli.Usagef("--set %s: trainer new writes data.split itself, and takes other keys of the data: change it in the config that is written, or give it to trainer train", pair)
		case !strings.HasPrefix(key, "data."):
			return cli.Usagef("--set %s: trainer new takes keys of the data, such as data.label, all but data.path, data.source and data.split: write others into the config, or give them to trainer train", pair)
		}
	}
	n.lines = bufio.NewReader(n.command.InOrStdin())
	return nil
}

// gives reports whether --set gives a key.
func (n *starter) gives(key string) bool {
	return slices.ContainsFunc(n.set, func(pair string) bool { return strings.HasPrefix(pair, key+"=") })
}

// given are lines of the keys that --set gives, but for those that the draft writes itself. Of two for one key
// the later counts. Paths are from the config's folder.
func (n *starter) given(but ...string) (lines []string, err error) {
	for i, pair := range n.set {
		key, value, _ := strings.Cut(pair, "=")
		name := strings.TrimPrefix(key, "data.")
		again := slices.ContainsFunc(n.set[i+1:], func(later string) bool { return strings.HasPrefix(later, key+"=") })
		if again || slices.Contains(but, name) {
			continue
		}
		if name == "tokenizer" || name == "chat_template" {
			if value, err = n.nameOrPath(name, value); err != nil {
				return nil, err
			}
			value = quote(value)
		}
		lines = append(lines, name+": "+cmp.Or(value, `""`))
	}
	return lines, nil
}

// nameOrPath is the value of a key as the config has it: a tokenizer's name, or a path from the config's folder.
func (n *starter) nameOrPath(key, value string) (string, error) {
	if key == "tokenizer" && isTokenizerName(value) {
		return value, nil
	}
	return n.fromConfig(value)
}

// isTokenizerName reports whether a tokenizer is char, bytes, gpt2 or bpe:N, and no path.
func isTokenizerName(s string) bool { return (&configs.Data{Tokenizer: s}).TokenizerFile() == "" }

// window is the tokens in a sample that --set gives; "" without it. 0 is as usual, for which a config that was
// read has a number.
func (n *starter) window(cfg *configs.Config) string {
	if given := strings.TrimSpace(n.value("data.context")); given == "" || given == "0" {
		return given
	}
	return strconv.Itoa(cfg.Data.Context)
}

// pathThere is the path of the data as the config has it.
func (n *starter) pathThere() string {
	to, err := n.fromConfig(n.path)
	if err != nil {
		return n.path
	}
	return to
}

// fromConfig is a path from the config's folder.
func (n *starter) fromConfig(path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	from, err := filepath.Abs(filepath.Dir(n.out))
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(from, to)
	if err != nil { // on another disk
		return to, nil
	}
	return filepath.ToSlash(rel), nil
}

// nameOfData is the name of a file without its endings, in letters that any name may have.
func nameOfData(path string) string {
	name := filepath.Base(filepath.Clean(path))
	for _, packed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packed)
	}
	name = strings.TrimSuffix(name, filepath.Ext(name))
	name = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, name)
	return cmp.Or(strings.Trim(name, "-."), "mine")
}

// holdsImages reports whether a folder, one in it, or one in that has files of pictures.
func holdsImages(folder string) bool {
	for _, ending := range []string{"png", "jpg", "jpeg", "gif", "webp", "PNG", "JPG", "JPEG"} {
		if holds(folder, "*."+ending) || holds(folder, filepath.Join("*", "*."+ending)) || holds(folder, filepath.Join("*", "*", "*."+ending)) {
			return true
		}
	}
	return false
}

// ask asks a question with a default, or with none where it is "", until check takes the answer. With --yes it
// prints the default.
func (n *starter) ask(ctx context.Context, question, usual string, check func(string) error) (string, error) {
	out := n.command.ErrOrStderr()
	if n.yes {
		fmt.Fprintf(out, "%s %s, the default\n", question, usual)
		if err := check(usual); err != nil {
			return "", cli.Usage(err)
		}
		return usual, nil
	}
	for {
		if usual == "" {
			fmt.Fprintf(out, "%s ", question)
		} else {
			fmt.Fprintf(out, "%s [%s] ", question, usual)
		}
		n.stop.Asks(true)
		line, err := console.Wait(ctx, func() (string, error) { return n.lines.ReadString('\n') })
		n.stop.Asks(false)
		switch {
		case ctx.Err() != nil:
			fmt.Fprintln(out)
			return "", context.Cause(ctx)
		case err == io.EOF && line == "":
			fmt.Fprintln(out)
			return "", cli.Usagef("the answers ended, and nothing was written: give --yes for the defaults")
		case err != nil && err != io.EOF:
			return "", fmt.Errorf("nothing was written: %w", err)
		}
		answer := cmp.Or(strings.TrimSpace(line), usual)
		err = check(answer)
		if err == nil {
			return answer, nil
		}
		fmt.Fprintln(out, err)
	}
}

// typed is the name of a column as a person types it: in quotes where it has what cannot be
// typed or seen, such as the end of a line.
func typed(name string) string {
	if name == "" || strings.TrimSpace(name) != name || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// table asks about a table, and writes its config.
func (n *starter) table(ctx context.Context, cfg *configs.Config) ([]byte, error) {
	done := phase.Wait(ctx, n.command.ErrOrStderr(), "reading")
	name, list, err := berth.DescribeTable(ctx, cfg)
	if done(); err != nil {
		return nil, unplaced(err)
	}
	out := console.NewProse(n.command.OutOrStdout())
	fmt.Fprintf(out, "%s: %s\n", name, units.Count(rowsOf(list), "row"))
	printColumns(out, list)
	if len(list) == 1 {
		return nil, cli.Usagef("%s has one column, %s: a table needs one to predict, and one to predict it from", shown.Printed(n.path), typed(list[0].Name))
	}
	given, err := n.given("label", "task", "delimiter")
	if err != nil {
		return nil, err
	}
	t := tableDraft{name: nameOfData(n.out), path: n.pathThere(), delimiter: cfg.Data.Delimiter, given: given, rows: rowsOf(list), columns: list,
		shows: func(key string) bool { return cfg.Given("data." + key) }}
	if last := list[len(list)-1].Name; last != usualLabel(list) && !cfg.Given("data.label") {
		if err := canBeLabel(list, last); err != nil {
			fmt.Fprintf(out, "The last column is not taken: %v.\n", err)
		}
	}
	if err := n.target(ctx, cfg, &t); err != nil {
		return nil, err
	}
	share, err := n.ask(ctx, "Share of the rows to keep aside for a test at the end (0: none)?", "0.15", func(s string) error {
		if v, err := strconv.ParseFloat(s, 64); err != nil || v < 0 || v > 0.5 {
			return fmt.Errorf("%s: expected a number from 0 to 0.5", s)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t.test, _ = strconv.ParseFloat(share, 64)
	if err := n.inTraining(ctx, &t); err != nil {
		return nil, err
	}
	return t.yaml(), nil
}

// target asks for what is to be predicted, unless --set says it.
func (n *starter) target(ctx context.Context, cfg *configs.Config, t *tableDraft) error {
	labels := append([]string{cfg.Data.Label}, cfg.Data.MoreLabels...)
	if !cfg.Given("data.label") {
		labels[0] = usualLabel(t.columns)
		label, err := n.ask(ctx, "Which column is to be predicted?", typed(labels[0]), func(s string) error { return canBeLabel(t.columns, s) })
		if err != nil {
			return err
		}
		labels[0] = label
	}
	for _, label := range labels {
		if err := canBeLabel(t.columns, label); err != nil {
			return cli.Usage(err)
		}
		t.labels = append(t.labels, t.columns[indexOf(t.columns, label)])
	}
	if t.task = cfg.Data.Task; cfg.Given("data.task") {
		return nil
	}
	label := t.labels[0]
	if label.Kind != columns.Number {
		return nil
	}
	if label.Different == 0 || label.Different > fewClasses {
		t.task = datasets.TaskRegression
		return nil
	}
	question := fmt.Sprintf("Predict %s as one of %s, or as a number (classes, number)?", typed(label.Name), units.Count(label.Different, "class"))
	answer, err := n.ask(ctx, question, "classes", oneOf("classes", "number"))
	if answer == "number" {
		t.task = datasets.TaskRegression
	}
	return err
}

// inTraining describes the columns as training finds them: in its part of the rows.
func (n *starter) inTraining(ctx context.Context, t *tableDraft) error {
	cfg, err := configs.Parse(n.out, t.yaml(), configs.Overlay{})
	if err != nil {
		return err
	}
	data, err := berth.ReadData(ctx, cfg)
	if err != nil {
		return unplaced(err)
	}
	if data.Columns != nil {
		t.columns = data.Columns
	}
	return nil
}

// fewClasses is the most different numbers in a label that are asked about as classes.
const fewClasses = 10

// usualLabels are names that columns to be predicted often have. The last ones are also those of
// others: a ticket has a class, and a diamond has a length x and a width y.
var usualLabels = []string{"label", "target", "outcome", "churn", "survived", "price", "species", "quality", "default", "fraud", "class", "y"}

// usualLabel is the column that is probably to be predicted: one of a usual name, or else the last that
// can be.
func usualLabel(list []columns.Description) string {
	for _, name := range usualLabels {
		for _, d := range list {
			if strings.EqualFold(d.Name, name) && canBeLabel(list, d.Name) == nil {
				return d.Name
			}
		}
	}
	for _, d := range slices.Backward(list) {
		if canBeLabel(list, d.Name) == nil {
			return d.Name
		}
	}
	return list[len(list)-1].Name
}

func indexOf(list []columns.Description, name string) int {
	return slices.IndexFunc(list, func(d columns.Description) bool { return d.Name == name || typed(d.Name) == name })
}

// canBeLabel says why a column is not to be predicted; nil if it may be.
func canBeLabel(list []columns.Description, name string) error {
	i := indexOf(list, name)
	if i < 0 {
		var names []string
		for _, d := range list {
			names = append(names, d.Name)
		}
		hint := ""
		if near := columns.Meant(name, names); near != "" {
			hint = "; did you mean " + typed(near) + "?"
		}
		return fmt.Errorf("there is no column %s: give one of the names above%s", typed(name), hint)
	}
	switch d := list[i]; {
	case d.Kind != columns.Number && d.Kind != columns.Boolean && d.Kind != columns.Category:
		return fmt.Errorf("%s is of kind %s: classes, yes and no, or numbers can be predicted", typed(d.Name), d.Kind)
	case d.Different == 1:
		return fmt.Errorf("%s has the same value in all rows: there is nothing to predict", typed(d.Name))
	}
	return nil
}

func oneOf(words ...string) func(string) error {
	return func(s string) error {
		if slices.Contains(words, s) {
			return nil
		}
		return fmt.Errorf("%s: expected %s", s, strings.Join(words, " or "))
	}
}

// write checks the config as plan does, and writes it into a new file.
func (n *starter) write(ctx context.Context, yaml []byte) error {
	cfg, err := configs.Parse(n.out, yaml, configs.Overlay{})
	if err != nil {
		return err
	}
	done := phase.Wait(ctx, n.command.ErrOrStderr(), "planning")
	run, err := berth.Open(ctx, cfg, berth.OpenOptions{})
	done()
	if err != nil {
		return fmt.Errorf("%w; nothing was written", err)
	}
	steps := run.TotalSteps()
	step, err := run.StepTime(ctx)
	if err = errors.Join(err, run.Close()); err != nil {
		return fmt.Errorf("%w; nothing was written", err)
	}
	file, err := os.OpenFile(n.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(yaml)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(n.out))
	}
	fmt.Fprintf(console.NewProse(n.command.OutOrStdout()), "%s is written: at most %s%s\nnext: %s\n", n.out, units.Count(steps, "step"), about(float64(steps)*step.Seconds), cmp.Or(n.next, "trainer train "+n.out))
	return nil
}

// about is the time of a whole run as its plan predicts it. A short run takes longer than its
// steps, so it has none.
func about(seconds float64) string {
	switch {
	case seconds < 10:
		return ""
	case seconds < 100:
		return fmt.Sprintf(", about %.0f s by arithmetic", seconds)
	case seconds < 100*60:
		return fmt.Sprintf(", about %.0f minutes by arithmetic", seconds/60)
	}
	return fmt.Sprintf(", about %.0f hours by arithmetic", seconds/3600)
}
