package overview

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// defaultParent is the folder of the runs whose folder nobody named.
const defaultParent = "runs"

func lsCommand(resting func(context.Context) ([]Resting, error)) *cobra.Command {
	c := &cobra.Command{
		Use: "ls [DIR]", Short: "List the runs of a folder, the newest first",
		Long:    "List the runs in DIR (default: runs), the newest first. LOSS is the newest of the validation part (val), or else of the training part (train). SIZE is that of the run's own files. On a terminal long names are cut, and a narrow one lacks columns. docs/looking.md explains each STATE.",
		Example: "  trainer runs ls\n  trainer runs ls experiments --json", Args: cli.ArgsBetween(0, 1),
	}
	asJSON := c.Flags().Bool("json", false, "print a JSON array")
	c.RunE = func(c *cobra.Command, args []string) error {
		dir := defaultParent
		if len(args) > 0 {
			dir = args[0]
		}
		list, err := runsIn(dir, len(args) > 0)
		if err != nil {
			return err
		}
		list = append(list, queuedIn(dir, markResting(list, told(c, resting)))...)
		slices.SortStableFunc(list, func(a, b summarized) int { return b.Changed.Compare(a.Changed) })
		if *asJSON {
			all := []Record{}
			for _, s := range list {
				all = append(all, s.record())
			}
			return printJSON(c.OutOrStdout(), all)
		}
		if len(list) == 0 {
			fmt.Fprintf(c.ErrOrStderr(), "%s holds no runs\n", columns.Printed(dir))
			return nil
		}
		return listTable(c.OutOrStdout(), list, time.Now(), console.Room(c.OutOrStdout()))
	}
	return c
}

func listTable(out io.Writer, list []summarized, now time.Time, width int) error {
	rows := [][]string{{"RUN", "STATE", "STEP", "EPOCH", "LOSS", "BEST", "SIZE", "WHEN"}}
	for _, s := range list {
		all := s.metrics()
		loss := "-"
		for _, part := range []string{"val", "train"} {
			if v, ok := all[part+"_loss"]; ok {
				loss = part + " " + text.Loss(v)
				break
			}
		}
		rows = append(rows, []string{s.dir, string(s.condition()), s.steps(), s.epochs(), loss, orDash(s.best()), units.Bytes(s.Bytes), ago(s.Changed, now)})
	}
	_, err := io.WriteString(out, columns.Format(rows, columns.Layout{Cut: []int{0, 5, 2}, Drop: []int{6, 3, 7, 5, 2}, Width: width}))
	return err
}
