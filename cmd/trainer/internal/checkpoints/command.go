package checkpoints

import (
	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
)

// Command is the command checkpoints with its subcommands.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:     "checkpoints",
		Short:   "List, inspect, compare, verify, copy, export and tidy up a run's checkpoints",
		Example: "  trainer checkpoints ls runs/digits\n  trainer checkpoints export runs/digits weights.safetensors",
	}
	cli.Group(c)
	c.AddCommand(cli.Printing(lsCommand()), cli.Printing(inspectCommand()), diffCommand(), verifyCommand(), exportCommand(), importCommand(),
		pruneCommand(), deleteCommand(), compactCommand(), copyCommand())
	for _, sub := range c.Commands() {
		sub.RunE = advising(sub.RunE)
	}
	c.AddCommand(repairCommand())
	return c
}
