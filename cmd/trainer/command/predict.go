package command

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

func predictCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "predict RUN [FILE]",
		Short: "Print a trained model's answers",
		Long: "Run a trained model on the samples of FILE, which has the format of the run's data; without FILE, on the validation part. Answers are JSON lines, or CSV: --out's suffix or --format says which. docs/report.md describes them.\n" +
			"\n" +
			"The run may train meanwhile.",
		Example: "  trainer predict runs/digits\n  trainer predict runs/iris new.csv --out answers.csv\n  trainer predict runs/iris new.csv --last --format csv\n  trainer predict runs/churn --with customer,churn",
		Args:    cli.ArgsBetween(1, 2),
	}
	flags := addTrained(c)
	format := c.Flags().String("format", "", "`FORMAT` of the answers: jsonl or csv (default: as --out ends, or jsonl)")
	file := c.Flags().String("out", "", "write to `FILE` (default: standard output)")
	c.Flags().StringSliceVar(&flags.with, "with", nil, "write the columns `NAMES` of a table in front of each answer, such as customer,churn")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *file == "" {
			if err := cli.CheckPrinting(c, "--out FILE"); err != nil {
				return err
			}
		}
		samples := ""
		if len(args) == 2 {
			samples = args[1]
		}
		if samples == "-" {
			return cli.Usagef("predict reads no standard input: name a file of rows, or leave - out for the validation part")
		}
		if err := checkOut(*file, samples); err != nil {
			return err
		}
		as, err := answerFormat(*format, *file)
		if err != nil {
			return err
		}
		return flags.use(c, args[0], func(run *berth.Trained) error {
			return answer(c, run, flags.weights, samples, *file, as)
		})
	}
	return c
}

// answer writes a run's answers for the samples of a file, or for the
// validation part (""), to the file out or standard output.
func answer(c *cobra.Command, run *berth.Trained, wf *runs.WeightFlags, samples, out, format string) error {
	if err := checkOut(out, run.Reads(samples)...); err != nil {
		return err
	}
	if _, err := os.Stat(samples); samples != "" && errors.Is(err, fs.ErrNotExist) && !isPattern(samples) {
		return cli.NoFile(samples, "name one in the format of the run's data, or none for the validation part")
	}
	n := 0
	err := output(c.OutOrStdout(), out, func(w io.Writer) error {
		room := math.MaxInt
		if out == "" {
			room = console.Room(c.OutOrStdout())
		}
		write, told := answerWriter(format, w, run.Info(), run.Classifies(), room), false
		_, err := run.Predict(c.Context(), samples, func(p berth.Prediction) error {
			if !told {
				told = true
				runs.TellUsed(c, wf, run.Used())
			}
			n++
			return write(p)
		})
		return err
	})
	if err == nil && out != "" {
		fmt.Fprintf(c.ErrOrStderr(), "%s in %s, as %s\n", units.Count(n, "answer"), columns.Printed(out), format)
	}
	return err
}

// checkOut refuses a file that cannot be written, or that is an input.
func checkOut(file string, inputs ...string) error {
	if file == "" {
		return nil
	}
	if err := rundir.CheckOutput(file, "", inputs...); err != nil {
		return fmt.Errorf("--out %w", err)
	}
	return nil
}

// output has write write to a file, or to standard output. The file may be a
// pipe, such as /dev/stdout: it is read as far as its reader wants.
func output(stdout io.Writer, file string, write func(io.Writer) error) error {
	if file == "" {
		b := bufio.NewWriter(stdout)
		err := write(b)
		return cmp.Or(err, b.Flush())
	}
	err := rundir.WriteOutput(file, write)
	if signals.ClosedPipe(err) {
		return cli.Unread(err)
	}
	return err
}
