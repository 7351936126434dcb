package command

import (
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

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/tabular"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

func dataCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "data FILE|CONFIG|NAME",
		Short: "Describe data without training",
		Long: "Describe a file or folder of data, or the data of a config. Of a table, each column is printed with its kind, its range, and how many features it becomes. Of a FILE, all rows count; of a config, those of the training part.\n" +
			"\n" +
			"FILE is a table (.csv, .tsv, .jsonl, .parquet, or a pattern for several), tensors (.npy, .npz, .safetensors), a folder of images (with a folder for each class, of IDX files, or of CIFAR), or else text. Keys such as data.delimiter are given with --set.",
		Example: "  trainer data churn.csv\n  trainer data 'sales-*.parquet'\n  trainer data churn.csv --set data.label=churn\n  trainer data photos --svg grid.svg\n  trainer data my.yaml",
		Args:    oneTable,
	}
	f := runs.AddConfigFlags(c)
	picture := c.Flags().String("svg", "", "also draw the first images that train, as the model gets them, into `FILE`")
	cli.Rare(c, "devices", "threads", "device-memory")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, file, err := dataConfig(c, f, args[0])
		if err != nil {
			return err
		}
		done := phase.Wait(c.Context(), c.ErrOrStderr(), "reading")
		defer done()
		if err := checkOut(*picture, cfg.Data.Path); err != nil {
			return err
		}
		if file && cfg.Data.Source == "csv" && !cfg.Given("data.label") && *picture == "" {
			name, list, err := berth.DescribeTable(c.Context(), cfg)
			if done(); err != nil {
				return unplaced(err)
			}
			out := console.NewProse(c.OutOrStdout())
			fmt.Fprintf(out, "%s: %s\n", name, units.Count(rowsOf(list), "row"))
			printColumns(out, list)
			fmt.Fprintln(out, "Every column is shown as a feature. The label is the one that data.label names, or else the last, if all rows have the same columns; --set data.label=NAME shows it, for an amount with --set data.task=regression.")
			return nil
		}
		data, err := berth.ReadData(c.Context(), cfg)
		if done(); err != nil && file {
			return unplaced(err)
		} else if err != nil {
			return err
		}
		printData(c.OutOrStdout(), data, cfg.Data.Positive)
		if data.Info.Chats {
			if err := printChat(c.OutOrStdout(), data); err != nil {
				return err
			}
		}
		if *picture == "" {
			return nil
		}
		return drawSamples(c.OutOrStdout(), *picture, data)
	}
	return c
}

// oneTable asks for one argument: a shell makes several of a pattern that is not in quotes.
func oneTable(c *cobra.Command, args []string) error {
	ext := ""
	if len(args) > 1 {
		ext = filepath.Ext(args[0])
	}
	if ext != "" && !slices.ContainsFunc(args, func(a string) bool { return filepath.Ext(a) != ext }) {
		return cli.Usagef("%d files given, 1 needed: several files of one table are a pattern in quotes, such as '*%s'", len(args), ext)
	}
	return cli.Args(1)(c, args)
}

// unplaced is an error without its place in the config of a file, which nobody wrote.
func unplaced(err error) error {
	if placed, ok := errors.AsType[*configs.PlacedError](err); ok && placed.Pos.Line > 0 {
		return placed.Err
	}
	return err
}

// rowsOf is the rows that columns were described from.
func rowsOf(list []columns.Description) int {
	if len(list) == 0 {
		return 0
	}
	return list[0].Rows
}

// dataConfig is the config to read data with: the one of that name, or one for a file.
func dataConfig(c *cobra.Command, f *runs.ConfigFlags, arg string) (cfg *configs.Config, file bool, err error) {
	st, err := os.Stat(arg)
	pattern := err != nil && isPattern(arg)
	if err != nil && !pattern && !slices.Contains([]string{"", ".yaml", ".yml"}, filepath.Ext(arg)) {
		return nil, false, unread(arg, err)
	}
	if err != nil && !pattern || err == nil && !st.IsDir() && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(arg)) {
		cfg, err = f.Load(c, arg)
		return cfg, false, err
	}
	text, err := fileConfig(c.Context(), arg, err == nil && st.IsDir())
	if err != nil {
		return nil, false, err
	}
	cfg, err = readAs(c.Context(), text, f.Overlay(c))
	return cfg, true, err
}

// readAs reads the config of a file, with the keys of an overlay. It finds the delimiter of CSV where nothing names it.
func readAs(ctx context.Context, text []byte, o configs.Overlay) (*configs.Config, error) {
	cfg, err := configs.Parse("data", text, o)
	if err != nil {
		return nil, cli.Usage(err)
	}
	if d := &cfg.Data; d.Source == "csv" && !cfg.Given("data.delimiter") {
		d.Delimiter = cmp.Or(delimiterOf(ctx, d.Path, d.SkipRows), d.Delimiter)
	}
	return cfg, nil
}

// isPattern reports whether a path that leads to no file may be a pattern of several.
func isPattern(path string) bool { return strings.ContainsAny(path, "*?[") }

// unread is the error of a data file that cannot be looked at.
func unread(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return cli.NoFile(path, "name a table, a text, an array, or a folder of them")
	}
	return cli.Usage(err)
}

// fileConfig is a config that reads a file, or those of a pattern.
func fileConfig(ctx context.Context, path string, folder bool) ([]byte, error) {
	name := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst"))
	data, model := []string{"source: text", "split: 1"}, "preset: gpt, layers: 1, heads: 1, width: 8"
	switch ext := filepath.Ext(name); {
	case folder && holds(path, "*idx?-ubyte*"):
		data, model = []string{"source: mnist"}, "preset: mlp"
	case folder && holdsCIFAR(path):
		data, model = []string{"source: images", "split: 1"}, "preset: mlp"
	case folder && holdsImages(path):
		data, model = []string{"source: images", "split: 1", "size: [64, 64]"}, "preset: mlp"
	case folder && holds(path, "*.npy"), ext == ".npy", ext == ".npz", ext == ".safetensors":
		data, model = []string{"source: tensors", "split: 1"}, "preset: mlp"
	case folder && tablesIn(path) != "":
		return nil, cli.Usagef("%s is a folder with tables: describe one of them, or all as one table: trainer data '%s'", path, tablesIn(path))
	case folder:
	case ext == ".csv", ext == ".parquet":
		data, model = []string{"source: csv", "split: 1"}, "preset: mlp"
	case ext == ".tsv":
		data, model = []string{"source: csv", "split: 1", `delimiter: "\t"`}, "preset: mlp"
	default:
		format, texts, err := tabular.Looks(ctx, path)
		switch {
		case err != nil:
			return nil, cli.Usage(err)
		case texts:
			data = append(data, "field: text")
		case format != tabular.CSV:
			data, model = []string{"source: csv", "split: 1"}, "preset: mlp"
		}
	}
	quoted := strings.ReplaceAll(cmp.Or(path, "."), "'", "''")
	return fmt.Appendf(nil, "data: {path: '%s', %s}\nmodel: {%s}\n", quoted, strings.Join(data, ", "), model), nil
}

// delimiterOf is the delimiter of CSV whose rows would be one column with a comma, or do not fit it; "" for
// other files.
func delimiterOf(ctx context.Context, path string, skip int) string {
	if format, _, err := tabular.Looks(ctx, path); err != nil || format != tabular.CSV {
		return ""
	}
	t, err := tabular.Open(ctx, path, tabular.Options{Skip: skip})
	if err == nil {
		return t.Other
	}
	for _, comma := range []rune{';', '\t', '|'} {
		if t, err := tabular.Open(ctx, path, tabular.Options{Comma: comma, Skip: skip}); err == nil && t.Width > 1 {
			return string(comma)
		}
	}
	return ""
}

// tablesIn is the pattern for the tables in a folder that has no texts; "" if it has none.
func tablesIn(folder string) string {
	for _, pattern := range []string{"*.csv", "*.tsv", "*.parquet"} {
		if holds(folder, pattern) && !holds(folder, "*.txt") {
			return filepath.Join(folder, pattern)
		}
	}
	return ""
}

// holds reports whether a folder has files of a pattern.
func holds(folder, pattern string) bool {
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	return err == nil && len(found) > 0
}

// holdsCIFAR reports whether a folder has the binary files of CIFAR-10 or CIFAR-100.
func holdsCIFAR(folder string) bool {
	return holds(folder, "data_batch*.bin") || holds(folder, "test_batch.bin") || holds(folder, "fine_label_names.txt") && holds(folder, "t*.bin")
}

// printData prints what data is. positive is the class that a config names so.
func printData(out io.Writer, data *datasets.Dataset, positive string) {
	w := console.NewProse(out)
	line := fmt.Sprintf("%s: %s", data.Name, units.Count(data.Train.Samples(), "sample"))
	if data.Val != nil {
		line += fmt.Sprintf(" to train on, %s to validate", units.Thousands(data.Val.Samples()))
	}
	if data.Test != nil {
		line += fmt.Sprintf(", %s to test", units.Thousands(data.Test.Samples()))
	}
	fmt.Fprintln(w, line)
	if data.Columns != nil {
		printColumns(w, data.Columns)
	}
	info := &data.Info
	for _, f := range append(slices.Clone(info.Inputs), info.Target) {
		fmt.Fprintf(w, "%s %v%s\n", f.Name, f.Meta, ofWhat(info, f, positive))
	}
	if info.Balanced != nil {
		fmt.Fprintf(w, "balanced weights: %s\n", weightsText(info))
	}
	if info.Buckets != nil {
		fmt.Fprintf(w, "padded to %v positions\n", info.Buckets)
	}
	for _, note := range data.Notes {
		if !slices.Contains(columns.Notes(data.Columns), note) {
			fmt.Fprintln(w, note)
		}
	}
}

// printChat prints the first sample of conversations. What is learnt of it is in « ».
func printChat(out io.Writer, data *datasets.Dataset) error {
	const most = 500 // tokens
	part := data.Train.InOrder()
	fields := part.Alloc(1)
	if _, err := part.Read(datasets.Cursor{}, 1, fields); err != nil {
		return err
	}
	// The last token of a conversation is a target only: the next conversation's first follows in the inputs.
	ids, positions, targets := shape.View[int32](fields[0]), shape.View[int32](fields[2]), shape.View[int32](fields[3])
	n := min(int(shape.View[int32](fields[1])[0]), most)
	var text []byte
	learnt := false
	mark := func(next bool) {
		if next != learnt {
			text = append(text, map[bool]string{true: "«", false: "»"}[next]...)
		}
		learnt = next
	}
	decode := func(id int32) { text = data.Info.Tokenizer.Decode(text, []uint32{uint32(id)}) }
	for i := range n {
		if !learnt || positions[i] == 0 { // else it was the last target
			mark(false)
			decode(ids[i])
		}
		if targets[i] != datasets.Padding {
			mark(true)
			decode(targets[i])
		} else {
			mark(false)
		}
	}
	mark(false)
	_, err := fmt.Fprintf(out, "\nA sample, in « » what is learnt of it:\n%s\n", text)
	return err
}

// weightsText is the weights of the first classes, or labels, by name.
func weightsText(info *datasets.Info) string {
	const most = 8
	var list []string
	for i, weight := range info.Balanced[:min(most, len(info.Balanced))] {
		name := info.ClassName(i)
		if i < len(info.TargetNames) {
			name = info.TargetNames[i]
		}
		list = append(list, fmt.Sprintf("%s %.4g", cmp.Or(name, strconv.Itoa(i)), weight))
	}
	if len(info.Balanced) > most {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// ofWhat says what the elements of a field are.
func ofWhat(info *datasets.Info, f datasets.Field, positive string) string {
	switch {
	case f.Name == info.Inputs[0].Name && info.Tokens > 0: // not the length behind it
		return fmt.Sprintf(", ids of %s", units.Count(info.Tokens, "token"))
	case f.Name != info.Target.Name || info.Classes == 0:
		return ""
	}
	const most = 8
	text := fmt.Sprintf(", one of %s", units.Count(info.Classes, "class"))
	if n := len(info.ClassNames); n > 0 {
		text += ": " + strings.Join(info.ClassNames[:min(n, most)], ", ")
		if n > most {
			text += ", …"
		}
		if n == 2 {
			text += fmt.Sprintf("; %s is the positive one", cmp.Or(positive, info.ClassNames[1]))
		}
	}
	return text
}

// mostDescribed is the columns of a table that are printed.
const mostDescribed = 200

// printColumns prints the columns of a table, and what is odd about them.
func printColumns(out io.Writer, list []columns.Description) {
	w := console.NewProse(out)
	fmt.Fprint(w, columns.Table(list, mostDescribed, console.Room(w)))
	for _, note := range columns.Notes(list) {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintln(w, columns.Thresholds)
}
