package checkpoints

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

func diffCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "diff RUN A B", Short: "Compare two checkpoints of a run",
		Long: "Compare the checkpoints A and B, each named by its ID or by its step. It prints the config keys that changed and, for each tensor whose bits differ, " +
			"the number of elements that differ and the largest difference. It exits with 1 if anything differs.",
		Example: "  trainer checkpoints diff runs/digits 2 3\n  trainer checkpoints diff runs/a step:90 step:90 --with runs/b", Args: cli.Args(3),
	}
	with := c.Flags().String("with", "", "the `RUN` that has B (default: the run that has A)")
	c.RunE = func(c *cobra.Command, args []string) error {
		other := *with
		if other == "" {
			other = args[0]
		}
		return loading(args[0], args[1], func(a *checkpoint.Snapshot) error {
			return loading(other, args[2], func(b *checkpoint.Snapshot) error { return diff(c, a, b) })
		})
	}
	return c
}

// loading opens one checkpoint of a run by its name, for f to read.
func loading(run, name string, f func(*checkpoint.Snapshot) error) error {
	var which runs.Which
	if which.Set(name) != nil {
		return cli.Usagef("%q is not a checkpoint: expected %s; trainer checkpoints ls %s lists them", name, which.Expected(), run)
	}
	return reading(run, func(db *checkpoint.DB) error {
		id, err := which.ID(db)
		if err != nil {
			return err
		}
		s, err := db.Load(id)
		if err != nil {
			return err
		}
		return f(s)
	})
}

// diff prints how two checkpoints differ, and fails if they do.
func diff(c *cobra.Command, a, b *checkpoint.Snapshot) error {
	ds, err := checkpoint.Diff(c.Context(), a, b)
	if err != nil {
		return err
	}
	out := console.NewProse(c.OutOrStdout())
	changes, _ := configs.Changes(a.Manifest.Config, b.Manifest.Config) // none where one cannot be read
	for _, line := range changes {
		fmt.Fprintf(out, "config: %s\n", line)
	}
	if len(ds)+len(changes) == 0 {
		fmt.Fprintln(out, "the same")
		return nil
	}
	if err := printDiff(out, ds); err != nil {
		return err
	}
	return fmt.Errorf("%s of %s and %s differ", units.Thousands(len(ds)), units.Count(len(a.Manifest.Tensors), "tensor"), units.Count(len(changes), "config key"))
}

func printDiff(w io.Writer, ds []checkpoint.Difference) error {
	rows := [][]string{{"TENSOR", "A", "B", "ELEMENTS", "LARGEST DIFFERENCE"}}
	side := func(x *checkpoint.Tensor) string {
		if x == nil {
			return "-"
		}
		return x.Meta.String()
	}
	for _, d := range ds {
		if d.Count == 0 {
			rows = append(rows, []string{d.Name, side(d.A), side(d.B)})
			continue
		}
		rows = append(rows, []string{d.Name, side(d.A), side(d.B), units.Thousands(d.Count), units.Number(d.Largest)})
	}
	_, err := io.WriteString(w, columns.Format(rows, columns.Layout{Right: []int{3, 4}, Cut: []int{0, 1, 2}, Drop: []int{2, 1}, Width: console.Room(w)}))
	return err
}
