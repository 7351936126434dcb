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
	return reading(run, func(db *checkpoint.DB) error {
		var named error // of a checkpoint that has no other in its place
		return errors.Join(checkpoint.UntilRead(func() error {
			s, chosen, err := w.Pick(c, db)
			if err != nil {
				return err
			}
			if err = f(db, s); chosen {
				named, err = err, nil
			}
			return err
		}), named)
	})
}
