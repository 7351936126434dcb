package checkpoints

import (
	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
)

// Command is the command checkpoints with its subcommands.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:     "checkpoints",
		Short:   "List, inspect, check, copy and prune the checkpoints of a run",
		Example: "  trainer checkpoints ls runs/digits\n  trainer checkpoints prune runs/digits --last 1",
	}
	cli.Group(c)
	c.AddCommand(cli.Printing(lsCommand()), cli.Printing(inspectCommand()), diffCommand(), verifyCommand(), pruneCommand(), copyCommand())
	for _, sub := range c.Commands() {
		sub.RunE = advising(sub.RunE)
	}
	c.AddCommand(repairCommand(),
		cli.Retired("export", "trainer export RUN --out FILE.safetensors writes the weights"),
		cli.Retired("import", "trainer import FILE.safetensors --run RUN adds the checkpoint"),
		cli.Retired("delete", "trainer checkpoints prune RUN --checkpoint ID deletes the checkpoint"),
		cli.Retired("compact", "trainer checkpoints prune RUN makes the file smaller"))
	return c
}
