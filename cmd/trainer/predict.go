package main

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
)

func predictCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "predict RUN [FILE]",
		Short: "Print a trained model's answers",
		Long: "Run a trained model on the samples of FILE, in the format of the run's data, or on the validation part.\n" +
			"Answers are JSON lines, or CSV with --format csv: of classification, the likeliest class, its name (label) and each\n" +
			"class's probability (values); of regression, the numbers (values); of a text, the character after each window of\n" +
			"data.context characters, the last of which may be shorter.",
		Example: "  trainer predict runs/digits\n  trainer predict runs/iris new.csv --format csv --out answers.csv",
		Args:    cli.ArgsBetween(1, 2),
	}
	cf, wf := runs.AddConfigFlags(c), runs.AddWeightFlags(c)
	format := c.Flags().String("format", "jsonl", "jsonl or csv")
	file := c.Flags().String("out", "", "write to this file, in place of what it holds once all answers are there (default: standard output)")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if *format != "jsonl" && *format != "csv" {
			return cli.Usagef("--format %s: expected jsonl or csv", *format)
		}
		run, weights, err := runs.OpenTrained(c, cf, wf, args[0])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, run.Close()) }()
		path := ""
		if len(args) == 2 {
			path = args[1]
		}
		predict := func(w io.Writer) error {
			return run.Predict(c.Context(), weights, path, writerOf(*format, w))
		}
		return output(c.OutOrStdout(), *file, append(run.Reads(weights), path), predict)
	}
	return c
}

// output has write write to a file, none of those that are read meanwhile, or
// to standard output.
func output(stdout io.Writer, file string, reads []string, write func(io.Writer) error) error {
	if file == "" {
		b := bufio.NewWriter(stdout)
		err := write(b)
		return cmp.Or(err, b.Flush())
	}
	if err := berth.CheckOutput(file, reads...); err != nil {
		return fmt.Errorf("--out %w", err)
	}
	return berth.WriteOutput(file, write)
}

// writerOf writes predictions in a format, csv or jsonl.
func writerOf(format string, out io.Writer) func(berth.Prediction) error {
	if format == "csv" {
		return (&csvWriter{w: csv.NewWriter(out)}).write
	}
	enc := json.NewEncoder(out)
	return func(p berth.Prediction) error { return enc.Encode(p) }
}

// csvWriter writes a header with the first prediction.
type csvWriter struct {
	w     *csv.Writer
	begun bool
}

func (c *csvWriter) write(p berth.Prediction) error {
	if !c.begun {
		c.begun = true
		if err := c.w.Write(csvHeader(p)); err != nil {
			return err
		}
	}
	row := []string{strconv.Itoa(p.Index)}
	if p.Class != nil {
		row = append(row, strconv.Itoa(*p.Class), p.Label)
	}
	for _, v := range p.Values {
		row = append(row, strconv.FormatFloat(float64(v), 'g', -1, 32))
	}
	if err := c.w.Write(row); err != nil {
		return err
	}
	c.w.Flush()
	return c.w.Error()
}

func csvHeader(p berth.Prediction) []string {
	h := []string{"index"}
	if p.Class != nil {
		h = append(h, "class", "label")
	}
	for i := range p.Values {
		h = append(h, fmt.Sprintf("value%d", i))
	}
	return h
}
