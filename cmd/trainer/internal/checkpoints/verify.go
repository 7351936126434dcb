package checkpoints

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/internal/units"
)

func verifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "verify RUN", Short: "Read every byte of the checkpoints and check it",
		Example: "  trainer checkpoints verify runs/digits\n  trainer checkpoints verify runs/digits --checkpoint 3", Args: cli.Args(1),
	}
	which := runs.AddWhich(c, "check only the checkpoint with this ID, or of this step")
	c.RunE = func(c *cobra.Command, args []string) error {
		return readingAlone(args[0], func(db *checkpoint.DB) error {
			id, err := which.ID(db)
			if err != nil {
				return err
			}
			return verify(c, db, id)
		})
	}
	return c
}

func verify(c *cobra.Command, db *checkpoint.DB, id uint64) error {
	found := 0
	err := db.Verify(c.Context(), id, func(s checkpoint.Skipped) {
		if errors.Is(s.Err, checkpoint.ErrNotFound) {
			return // no fault of the file: the error says it
		}
		found++
		fmt.Fprintln(console.NewProse(c.OutOrStdout()), s)
	})
	switch {
	case err == nil:
		return allWhole(c, db)
	case errors.Is(err, checkpoint.ErrNotFound):
		return cli.Usage(err)
	case found > 0:
		return fmt.Errorf("%w: %s listed above; --resume continues from the newest complete checkpoint", checkpoint.ErrDamaged, units.Count(found, "fault"))
	}
	return err
}

// allWhole says that nothing is wrong, and whether there was anything to check.
func allWhole(c *cobra.Command, db *checkpoint.DB) error {
	list, _, err := db.List()
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		fmt.Fprintln(c.OutOrStdout(), "all whole, but there is no checkpoint yet")
	default:
		fmt.Fprintln(c.OutOrStdout(), "all whole")
	}
	return nil
}
