package overview

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
)

// Command is the command runs with its subcommands. stop hears when one asks, resting lists the
// queued jobs that wait or are paused, and reserved says whose those of all jobs are that are not over.
func Command(stop *signals.Stop, resting func(context.Context) ([]Resting, error), reserved func(context.Context) runs.Reserved) *cobra.Command {
	c := &cobra.Command{
		Use:     "runs",
		Short:   "List, show, compare and delete runs",
		Example: "  trainer runs ls\n  trainer runs compare runs/digits runs/digits-2",
	}
	cli.Group(c)
	c.AddCommand(cli.Printing(lsCommand(resting)), cli.Printing(showCommand(resting)), cli.Printing(compareCommand(resting)), rmCommand(stop, reserved))
	return c
}
