package checkpoints

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/columns"
)

func exportCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "export RUN FILE.safetensors", Short: "Write a checkpoint's weights as safetensors",
		Long: "Write a checkpoint's parameters and batchnorm statistics by name. The file loads as a PyTorch state_dict and with --init.\n" +
			"No file is replaced: name one that does not exist.",
		Example: "  trainer checkpoints export runs/digits weights.safetensors", Args: cli.Args(2),
	}
	w := addPickFlags(c)
	all := c.Flags().Bool("all", false, "the optimizer's state, too")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := checkNew(args[1]); err != nil {
			return err
		}
		roles := []string{graph.Parameter.String(), graph.Statistic.String()}
		if *all {
			roles = nil
		}
		return using(c, args[0], w, func(db *checkpoint.DB, s *checkpoint.Snapshot) error {
			if err := db.Export(s.Manifest.ID, args[1], roles...); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "checkpoint %d, step %d: %s\n", s.Manifest.ID, s.Manifest.Step, columns.Printed(args[1]))
			return err
		})
	}
	return c
}
