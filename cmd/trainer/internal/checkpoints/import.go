package checkpoints

import (
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/engine/safetensors"
)

// Import adds a checkpoint to a run: the one that w chooses, with the weights of a file in
// the format safetensors, found by prefix and name. It returns the new checkpoint.
func Import(c *cobra.Command, run string, w *runs.WeightFlags, path, prefix string) (added berth.Used, err error) {
	err = changing(run, func(db *checkpoint.DB) error {
		base, _, err := w.Pick(c, db)
		if err != nil {
			return err
		}
		id, err := runstate.Import(c.Context(), db, base, path, prefix)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, safetensors.ErrFormat) || errors.Is(err, safetensors.ErrFinite) {
			return cli.Usage(err)
		}
		added = berth.Used{ID: id, Step: base.Manifest.Step, File: path}
		return err
	})
	return added, advised(err, run)
}
