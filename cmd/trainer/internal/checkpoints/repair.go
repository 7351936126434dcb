package checkpoints

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
)

func repairCommand() *cobra.Command {
	return &cobra.Command{
		Use: "repair RUN FILE.db", Short: "Copy the whole checkpoints of a damaged file into a new one",
		Long:    "Copy every whole checkpoint into a new file, and name those that are not whole. The entire file is searched for checkpoints that the damage hides. The run's own file stays as it is.",
		Example: "  trainer checkpoints repair runs/digits whole.db\n  mv whole.db runs/digits/checkpoints.db", Args: cli.Args(2),
		RunE: func(c *cobra.Command, args []string) error {
			err := toNewFile(c, args[0], args[1], func(from, to string) (int, error) {
				return checkpoint.Salvage(c.Context(), from, to, func(s checkpoint.Skipped) {
					fmt.Fprintf(console.NewProse(c.OutOrStdout()), "left out: %v\n", s)
				})
			})
			if errors.Is(err, checkpoint.ErrDamaged) {
				return fmt.Errorf("%w: nothing can be recovered; to train again from the start: trainer train CONFIG --fresh", err)
			}
			return err
		},
	}
}
