package checkpoints

import (
	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
)

func copyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "copy RUN FILE.db", Short: "Copy a run's checkpoints into a new file, even while it trains",
		Long: "Copy the checkpoints that a run has now into a new file. The run may train meanwhile, and is not disturbed. The copy is checked. (cp is not safe here: it could read the file half changed.)",
		Example: "  trainer checkpoints copy runs/digits now.db && trainer checkpoints ls now.db\n" +
			"  trainer checkpoints copy runs/digits now/checkpoints.db # a folder for eval", Args: cli.Args(2),
		RunE: func(c *cobra.Command, args []string) error {
			return toNewFile(c, args[0], args[1], func(from, to string) (int, error) {
				return checkpoint.Copy(c.Context(), from, to, func(s checkpoint.Skipped) {
					runs.TellSkipped(c, []checkpoint.Skipped{s})
				})
			})
		},
	}
}
