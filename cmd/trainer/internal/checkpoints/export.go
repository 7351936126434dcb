package checkpoints

import (
	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/exchange"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
)

// Export writes the weights of the checkpoint of a run that w chooses into a new file in
// the format safetensors, with what was fitted to the data; with all, the optimizer's state, too.
func Export(c *cobra.Command, run string, w *runs.WeightFlags, path string, all bool) (used berth.Used, err error) {
	if err := checkNew(path); err != nil {
		return used, err
	}
	err = using(c, run, w, func(db *checkpoint.DB, s *checkpoint.Snapshot) error {
		list, _, err := db.List()
		if err != nil {
			return err
		}
		used = rundir.UsedOf(&s.Manifest, list)
		return exchange.WriteSafetensors(c.Context(), s, path, all)
	})
	return used, advised(err, run)
}
