package checkpoints

import (
	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/engine/graph"
)

// Export writes the weights of the checkpoint of a run that w chooses into a new file in
// the format safetensors; with all, the optimizer's state, too.
func Export(c *cobra.Command, run string, w *runs.WeightFlags, path string, all bool) (used berth.Used, err error) {
	if err := checkNew(path); err != nil {
		return used, err
	}
	roles := []string{graph.Parameter.String(), graph.Statistic.String()}
	if all {
		roles = nil
	}
	err = using(c, run, w, func(db *checkpoint.DB, s *checkpoint.Snapshot) error {
		used = berth.Used{ID: s.Manifest.ID, Step: s.Manifest.Step}
		return db.Export(s.Manifest.ID, path, roles...)
	})
	return used, advised(err, run)
}
