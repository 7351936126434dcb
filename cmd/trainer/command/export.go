package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/checkpoints"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/columns"
)

// exportFormat is a format that export writes.
type exportFormat struct {
	about string
	write func(e *export) (berth.Used, error)
}

// exportFormats are the formats by the names of [configs.ExportFormats].
var exportFormats = map[string]exportFormat{
	"safetensors": {"the weights by name, for PyTorch, --init and import", (*export).safetensors},
	"onnx":        {"a model that takes raw rows, for ONNX Runtime and others", library(newFile(berth.ExportONNX))},
	"hf":          {"a GPT or Llama as a folder for Hugging Face's transformers", library(berth.Export)},
	"peft":        {"the adapter that adapt.lora trains, as a folder for PEFT", library(berth.ExportPEFT)},
}

// export is a call of the command export.
type export struct {
	c         *cobra.Command
	run, out  string
	format    string
	weights   *runs.WeightFlags
	optimizer bool // its state is written, too
}

func exportCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "export RUN --out PATH", Short: "Write a run's model for other programs",
		Long: "Write the model of a run's checkpoint, the best unless another is chosen, into a new file or folder. --format says how; without it, the ending of PATH does:\n\n" + exportList() +
			"\n\nRUN may also be a file of checkpoints, except for onnx, hf and peft. The run may train meanwhile.",
		Example: "  trainer export runs/digits --out digits.safetensors\n  trainer export runs/churn --out churn.onnx\n  trainer export runs/shakespeare-bpe --format hf --out my-gpt --last",
		Args:    exportArgs,
	}
	e := &export{c: c, weights: runs.AddChoiceFlags(c)}
	c.Flags().StringVar(&e.out, "out", "", "make the file or folder `PATH`")
	c.Flags().StringVar(&e.format, "format", "", "`FORMAT` of PATH: "+strings.Join(formatNames(), ", ")+" (default: as PATH ends)")
	c.Flags().BoolVar(&e.optimizer, "optimizer", false, "write the optimizer's state, too (safetensors)")
	c.RunE = func(_ *cobra.Command, args []string) error { return e.to(args[0]) }
	return c
}

// exportList describes the formats, a line each.
func exportList() string {
	var lines []string
	for _, f := range configs.ExportFormats {
		lines = append(lines, fmt.Sprintf("  %-11s  %s (%s)", f.Name, exportFormats[f.Name].about, cmp.Or(f.Ending, "no ending")))
	}
	return strings.Join(lines, "\n")
}

func formatNames() (names []string) {
	for _, f := range configs.ExportFormats {
		names = append(names, f.Name)
	}
	return names
}

// exportArgs asks for a run. It says where the path goes that some name behind it.
func exportArgs(c *cobra.Command, args []string) error {
	if len(args) == 2 {
		return cli.Usagef("give the path as a flag: %s %s --out %s", c.CommandPath(), args[0], args[1])
	}
	return cli.Args(1)(c, args)
}

// to exports the run in a folder, or of a file of checkpoints.
func (e *export) to(run string) error {
	e.run = run
	format, err := e.chosen()
	if err != nil {
		return err
	}
	if e.optimizer && format != "safetensors" {
		return cli.Usagef("--optimizer: the format %s has no optimizer's state; leave it out, or give --format safetensors", format)
	}
	used, err := exportFormats[format].write(e)
	if err != nil {
		return err
	}
	if !e.weights.Given() {
		fmt.Fprintln(e.c.ErrOrStderr(), e.weights.UsedText(used))
	}
	_, err = fmt.Fprintf(console.NewProse(e.c.OutOrStdout()), "checkpoint %d, step %d: %s\n", used.ID, used.Step, columns.Printed(e.out))
	return err
}

// chosen is the format that --format names, or that the path ends in.
func (e *export) chosen() (format string, err error) {
	if e.out == "" {
		return "", cli.Usagef("export writes a file or a folder: name it with --out, such as --out weights.safetensors")
	}
	names, ending := strings.Join(formatNames(), ", "), filepath.Ext(e.out)
	if format = configs.FormatOf(e.format, e.out); format != "" {
		return format, nil
	}
	if e.format != "" {
		return "", cli.Usagef("--format %s: expected one of %s", e.format, names)
	}
	return "", cli.Usagef("--out %s: no format ends in %s; give --format, one of %s", e.out, ending, names)
}

func (e *export) safetensors() (berth.Used, error) {
	return checkpoints.Export(e.c, e.run, e.weights, e.out, e.optimizer)
}

// library is what writes a format by a function of package berth, which takes the weights
// of a run folder.
func library(write func(context.Context, berth.Weights, string) (*berth.Exported, error)) func(*export) (berth.Used, error) {
	return func(e *export) (used berth.Used, err error) {
		if !rundir.IsRun(osfile.Resolve(e.run)) {
			near, _ := rundir.Runs(filepath.Dir(e.run)) // without the folder, no run is near
			return used, cli.Usagef("%s is not a run folder: it has no %s; name one, such as runs/digits%s", e.run, rundir.CheckpointsName, cli.DidYouMean(e.run, near))
		}
		w, err := e.weights.Weights(e.run)
		if err != nil {
			return used, err
		}
		done := phase.Wait(e.c.Context(), e.c.ErrOrStderr(), "exporting")
		x, err := write(e.c.Context(), w, e.out)
		done()
		if errors.Is(err, checkpoint.ErrNotFound) {
			return used, cli.Usagef("%w; name a run folder, such as runs/digits", err)
		}
		if err != nil {
			return used, err
		}
		runs.TellSkipped(e.c, x.Used.Skipped)
		for _, note := range x.Notes {
			fmt.Fprintln(e.c.ErrOrStderr(), note)
		}
		return x.Used, nil
	}
}

// newFile is export for a path that has no file yet.
func newFile(export func(context.Context, berth.Weights, string) (*berth.Exported, error)) func(context.Context, berth.Weights, string) (*berth.Exported, error) {
	return func(ctx context.Context, w berth.Weights, path string) (*berth.Exported, error) {
		if _, err := os.Lstat(path); err == nil {
			return nil, cli.Usagef("%s: %w: name a file that does not exist", path, fs.ErrExist)
		}
		if err := rundir.CheckOutput(path, ""); err != nil {
			return nil, err
		}
		return export(ctx, w, path)
	}
}
