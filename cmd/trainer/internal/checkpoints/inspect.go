package checkpoints

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

func inspectCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "inspect RUN", Short: "Show a checkpoint's tensors and their statistics",
		Long:    "List a checkpoint's tensors: type, shape and role; the range, mean and standard deviation of the finite elements; how many elements are zero, NaN or infinite. Of a table, it also lists the columns that a row has.",
		Example: "  trainer checkpoints inspect runs/digits\n  trainer checkpoints inspect runs/digits --checkpoint 3", Args: oneRun,
	}
	w := runs.AddCheckpointFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return using(c, args[0], w, func(_ *checkpoint.DB, s *checkpoint.Snapshot) error { return printTensors(c, s) })
	}
	return c
}

// oneRun asks for a run. It says where the checkpoint goes that some name behind it.
func oneRun(c *cobra.Command, args []string) error {
	if len(args) == 2 {
		return cli.Usagef("give the checkpoint as a flag: %s %s --checkpoint %s", c.CommandPath(), args[0], args[1])
	}
	return cli.Args(1)(c, args)
}

func printTensors(c *cobra.Command, s *checkpoint.Snapshot) error {
	m, out := &s.Manifest, &bytes.Buffer{} // it is printed whole, or not at all
	fmt.Fprintf(out, "checkpoint %d: step %d, epoch %d, %s, %s\n", m.ID, m.Step, m.Epoch, units.Count(m.Count, "tensor"), units.Bytes(m.Bytes))
	kinds := [][]string{{"TENSOR", "TYPE", "ROLE", "ZERO", "NAN", "INF"}}
	numbers := [][]string{{"TENSOR", "MIN", "MAX", "MEAN", "STD"}}
	for _, x := range s.Tensors() {
		st, err := s.Stats(c.Context(), x.Name)
		if err != nil {
			return err
		}
		kinds = append(kinds, []string{x.Name, x.Meta.String(), x.Role, units.Thousands(st.Zero), units.Thousands(st.NaN), units.Thousands(st.Inf)})
		row := []string{x.Name}
		for _, v := range []float64{st.Min, st.Max, st.Mean, st.Std} {
			row = append(row, units.Number(v))
		}
		numbers = append(numbers, row)
	}
	layout := columns.Layout{Cut: []int{0}, Width: console.Room(c.OutOrStdout())}
	fmt.Fprintf(out, "%s\n%s", columns.Format(kinds, layout), columns.Format(numbers, layout))
	if st, err := runstate.Of(m); err == nil {
		printRow(out, &st.Data)
	}
	_, err := out.WriteTo(console.NewProse(c.OutOrStdout()))
	return err
}

// printRow prints what a row of a table has that the model takes.
func printRow(out io.Writer, info *datasets.Info) {
	row := info.Row()
	if row == nil {
		return
	}
	const most = 40
	fmt.Fprintf(out, "\nA row has these columns, in any order:\n")
	for i, line := range row.Expects() {
		if i == most {
			fmt.Fprintf(out, "  and %d more\n", len(row.Columns)-most)
			return
		}
		fmt.Fprintf(out, "  %s\n", line)
	}
}
