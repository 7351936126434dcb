package checkpoints

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
)

// using hands f the checkpoint that flags choose. Where a run that trains meanwhile deletes
// it, f gets the one that is the newest or the best then.
func using(c *cobra.Command, run string, w *runs.WeightFlags, f func(*checkpoint.DB, *checkpoint.Snapshot) error) error {
	const rounds = 8
	return reading(run, func(db *checkpoint.DB) (err error) {
		for range rounds {
			s, chosen, err2 := w.Pick(c, db)
			if err = err2; err != nil {
				return err
			}
			if err = f(db, s); chosen || !errors.Is(err, checkpoint.ErrDeleted) {
				return err
			}
		}
		return err
	})
}
