package checkpoints

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

func inspectCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "inspect RUN [ID]", Short: "Show a checkpoint's tensors and their statistics",
		Long: "List a checkpoint's tensors: type, shape and role; the range, mean and standard deviation of the finite elements;\n" +
			"how many elements are zero, NaN or infinite.",
		Example: "  trainer checkpoints inspect runs/digits\n  trainer checkpoints inspect runs/digits 3", Args: cli.ArgsBetween(1, 2),
	}
	w := &berth.Weights{}
	c.Flags().BoolVar(&w.Best, "best", false, "the best checkpoint (default: the newest)")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if len(args) == 2 {
			if w.Best {
				return cli.Usagef("--best and an ID exclude each other; give one")
			}
			if w.ID, err = parseID(args[0], args[1]); err != nil {
				return err
			}
		}
		return using(c, args[0], w, func(_ *checkpoint.DB, s *checkpoint.Snapshot) error { return printTensors(c, s) })
	}
	return c
}

func printTensors(c *cobra.Command, s *checkpoint.Snapshot) error {
	m, out := &s.Manifest, &bytes.Buffer{} // it is printed whole, or not at all
	fmt.Fprintf(out, "checkpoint %d: step %d, epoch %d, %s, %s\n", m.ID, m.Step, m.Epoch, text.Count(m.Count, "tensor"), units.Bytes(m.Bytes))
	kinds := [][]string{{"TENSOR", "TYPE", "ROLE", "ZERO", "NAN", "INF"}}
	numbers := [][]string{{"TENSOR", "MIN", "MAX", "MEAN", "STD"}}
	for _, x := range s.Tensors() {
		st, err := s.Stats(c.Context(), x.Name)
		if err != nil {
			return err
		}
		kinds = append(kinds, []string{x.Name, x.Meta.String(), x.Role, fmt.Sprint(st.Zero), fmt.Sprint(st.NaN), fmt.Sprint(st.Inf)})
		row := []string{x.Name}
		for _, v := range []float64{st.Min, st.Max, st.Mean, st.Std} {
			row = append(row, fmt.Sprintf("%.4g", v))
		}
		numbers = append(numbers, row)
	}
	layout := columns.Layout{Cut: []int{0}, Whole: console.Terminal(c.OutOrStdout()) == nil}
	fmt.Fprintf(out, "%s\n%s", columns.Format(kinds, layout), columns.Format(numbers, layout))
	if st, err := runstate.Of(m); err == nil {
		printRow(out, &st.Data)
	}
	_, err := out.WriteTo(c.OutOrStdout())
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
