package overview

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
)

// Command is the command runs with its subcommands. stop hears when one asks, waiting lists the run
// folders of queued jobs that wait, and reserved says whose those of all jobs are that are not over.
func Command(stop *signals.Stop, waiting func(context.Context) []string, reserved func(context.Context) runs.Reserved) *cobra.Command {
	c := &cobra.Command{
		Use:     "runs",
		Short:   "List, show, compare and delete runs",
		Example: "  trainer runs ls\n  trainer runs compare runs/digits runs/digits-2",
	}
	cli.Group(c)
	c.AddCommand(cli.Printing(lsCommand(waiting)), cli.Printing(showCommand(waiting)), cli.Printing(compareCommand(waiting)), rmCommand(stop, reserved))
	return c
}
