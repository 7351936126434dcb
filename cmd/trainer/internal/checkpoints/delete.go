package checkpoints

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
)

func deleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete RUN ID", Short: "Delete a checkpoint, even a damaged one",
		Long: "Delete a checkpoint. While a file holds a damaged one, nothing in the file is overwritten, so that repair may still\n" +
			"find its contents; deleting the damaged one ends that. Later saves reuse the room; trainer checkpoints compact makes the\n" +
			"file smaller.",
		Example: "  trainer checkpoints ls runs/digits\n  trainer checkpoints delete runs/digits 3", Args: cli.Args(2),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := parseID(args[0], args[1])
			if err != nil {
				return err
			}
			return changing(args[0], func(db *checkpoint.DB) error {
				if err := db.Delete(id); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.OutOrStdout(), "checkpoint %d deleted\n", id)
				return err
			})
		},
	}
}
