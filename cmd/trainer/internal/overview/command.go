package overview

import (
	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
)

// Command is the command runs with its subcommands. stop hears when one asks.
func Command(stop *signals.Stop) *cobra.Command {
	c := &cobra.Command{
		Use:     "runs",
		Short:   "List, show, compare and delete runs",
		Example: "  trainer runs ls\n  trainer runs compare runs/digits runs/digits-2",
	}
	cli.Group(c)
	c.AddCommand(cli.Printing(lsCommand()), cli.Printing(showCommand()), cli.Printing(compareCommand()), rmCommand(stop))
	return c
}
