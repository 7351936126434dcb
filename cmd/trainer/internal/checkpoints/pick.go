package checkpoints

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
)

// addPickFlags gives c the flags that choose a checkpoint.
func addPickFlags(c *cobra.Command) *berth.Weights {
	w := &berth.Weights{}
	c.Flags().Uint64Var(&w.ID, "id", 0, "the checkpoint with this `ID` (default: the newest)")
	c.Flags().BoolVar(&w.Best, "best", false, "the best checkpoint")
	return w
}

// pick finds the chosen checkpoint, and warns of those that were passed over
// because they are damaged.
func pick(c *cobra.Command, db *checkpoint.DB, w *berth.Weights) (*checkpoint.Snapshot, error) {
	if c.Flags().Changed("id") && w.ID == 0 {
		return nil, cli.Usagef("--id 0: IDs begin at 1; trainer checkpoints ls lists them")
	}
	s, skipped, err := rundir.Pick(c.Context(), db, w.Best, w.ID)
	if err == nil {
		runs.TellSkipped(c, skipped)
	}
	return s, err
}

// using hands f the chosen checkpoint. Where a run that trains meanwhile deletes it, f
// gets the one that is the newest or the best then.
func using(c *cobra.Command, run string, w *berth.Weights, f func(*checkpoint.DB, *checkpoint.Snapshot) error) error {
	const rounds = 8
	return reading(run, func(db *checkpoint.DB) (err error) {
		for range rounds {
			var s *checkpoint.Snapshot
			if s, err = pick(c, db, w); err != nil {
				return err
			}
			if err = f(db, s); w.ID != 0 || !errors.Is(err, checkpoint.ErrDeleted) {
				return err
			}
		}
		return err
	})
}

// parseID reads the ID of a checkpoint of a run.
func parseID(run, id string) (uint64, error) {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil || n == 0 {
		return 0, cli.Usagef("%q is not a checkpoint ID: give a whole number of at least 1; trainer checkpoints ls %s lists them", id, run)
	}
	return n, nil
}
