package checkpoints

import (
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

// parseID reads the ID of a checkpoint of a run.
func parseID(run, id string) (uint64, error) {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil || n == 0 {
		return 0, cli.Usagef("%q is not a checkpoint ID: give a whole number of at least 1; trainer checkpoints ls %s lists them", id, run)
	}
	return n, nil
}
