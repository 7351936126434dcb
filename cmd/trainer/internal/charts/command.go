package charts

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
)

// flags are those of plot.
type flags struct {
	out, across, title string
	metrics            []string
	log, confusion     bool
}

// mostRuns is the most runs of a picture.
const mostRuns = 28

// Command is the command plot.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "plot RUN… -o FILE.svg|FILE.png",
		Short: "Draw losses, metrics and learning rates of runs",
		Long:  "Draw what metrics.jsonl of the runs has: a panel each for the loss, the accuracy, other metrics, the learning rate and the norm of the gradients. A run may train meanwhile. RUN may also be a file with the output of trainer eval --json: its confusion matrix is drawn.",
		Example: "  trainer plot runs/digits -o digits.svg\n  trainer plot runs/digits runs/digits-2 -o both.png --metrics loss --log\n" +
			"  trainer plot eval.json -o confusion.svg # of trainer eval --json >eval.json",
		Args: cli.ArgsBetween(1, math.MaxInt),
	}
	var f flags
	c.Flags().StringVarP(&f.out, "out", "o", "", "draw into `FILE`, as its suffix says: .svg or .png")
	c.Flags().StringSliceVar(&f.metrics, "metrics", nil, "draw `NAMES` alone, such as loss,accuracy,samples_per_s")
	c.Flags().StringVar(&f.across, "x", "step", "`UNIT` that is across: step or epoch")
	c.Flags().BoolVar(&f.log, "log", false, "draw all but accuracies on logarithmic axes")
	c.Flags().BoolVar(&f.confusion, "confusion", false, "draw the run's newest confusion matrix alone")
	c.Flags().StringVar(&f.title, "title", "", "the picture's `TITLE` (default: the run's folder)")
	c.RunE = func(c *cobra.Command, args []string) error { return f.run(c, args) }
	return c
}

func (f *flags) run(c *cobra.Command, args []string) error {
	format, err := f.check(args)
	if err != nil {
		return err
	}
	done := phase.Wait(c.Context(), c.ErrOrStderr(), "reading")
	fig, err := f.figure(c, args)
	done()
	if err != nil {
		return err
	}
	return rundir.WriteOutput(f.out, func(w io.Writer) error { return fig.write(w, format) })
}

// check refuses flags that do not go together, and returns the picture's format.
func (f *flags) check(args []string) (format string, err error) {
	switch format = strings.TrimPrefix(strings.ToLower(filepath.Ext(f.out)), "."); {
	case f.out == "":
		return "", cli.Usagef("plot draws into a file: give -o FILE.svg or -o FILE.png")
	case format != "svg" && format != "png":
		return "", cli.Usagef("-o %s: expected a name that ends in .svg or .png", f.out)
	case f.across != "step" && f.across != "epoch":
		return "", cli.Usagef("--x %s: expected step or epoch", f.across)
	case len(args) > mostRuns:
		return "", cli.Usagef("%d runs: a picture shows at most %d", len(args), mostRuns)
	case f.confusion && len(args) > 1:
		return "", cli.Usagef("--confusion draws one run: give one")
	case f.confusion && (len(f.metrics) > 0 || f.log):
		return "", cli.Usagef("--confusion draws the matrix alone: leave --metrics and --log out")
	}
	if err := rundir.CheckOutput(f.out, ""); err != nil {
		return "", fmt.Errorf("-o %w", err)
	}
	return format, nil
}

// figure reads the runs, and lays the picture out.
func (f *flags) figure(c *cobra.Command, args []string) (*figure, error) {
	if len(args) == 1 && isFile(args[0]) {
		return f.ofAnswer(c.Context(), args[0])
	}
	var runs []*history
	for _, dir := range args {
		h, err := readHistory(c.Context(), dir)
		if err != nil {
			return nil, err
		}
		for _, text := range h.notes() {
			fmt.Fprintln(c.ErrOrStderr(), text)
		}
		if len(h.steps)+len(h.boundaries) == 0 {
			return nil, cli.Usagef("%s has no losses yet: they come at the end of its first epoch, or at train.boundary", h.name)
		}
		if f.across == "epoch" && h.perEpoch == 0 {
			return nil, cli.Usagef("--x epoch: %s has neither begun its second epoch nor saved a checkpoint, so that the length of an epoch is not known; leave --x out", h.name)
		}
		runs = append(runs, h)
	}
	return f.ofRuns(runs)
}

func (f *flags) ofRuns(runs []*history) (*figure, error) {
	title := f.title
	if title == "" {
		title = shown(runs[0].name, 90)
		if len(runs) > 1 {
			title = fmt.Sprintf("%d runs", len(runs))
		}
	}
	if f.confusion && runs[0].confusion == nil {
		return nil, cli.Usagef("%s has no confusion matrix: train with --set train.metrics=[confusion], or draw the output of trainer eval --json", runs[0].name)
	}
	if f.confusion {
		return figureOf(title, nil, nil, view{}, runs[0].confusion), nil
	}
	subjects, err := chosen(runs, f.metrics)
	if err != nil {
		return nil, err
	}
	var cells *matrix
	if len(runs) == 1 && len(f.metrics) == 0 {
		cells = runs[0].confusion
	}
	return figureOf(title, runs, subjects, view{epochs: f.across == "epoch", log: f.log}, cells), nil
}

// ofAnswer is the figure of an answer of eval --json.
func (f *flags) ofAnswer(ctx context.Context, path string) (*figure, error) {
	m, err := readMatrix(ctx, path)
	if err != nil {
		return nil, err
	}
	title := f.title
	if title == "" {
		title = shown(filepath.ToSlash(path), 90)
	}
	return figureOf(title, nil, nil, view{}, m), nil
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}
