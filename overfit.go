package berth

import (
	"fmt"

	"github.com/berth-ml/berth/checkpoint/restore"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
)

// overfit is a config and its data for training on one batch again and again, for so
// many steps: whether the loss falls to nothing is the first check of a model. The
// learning rate stays where its warm-up ends, nothing validates, and a tenth of the
// steps is from one boundary to the next.
func overfit(c *configs.Config, data *datasets.Dataset, steps int) (*configs.Config, *datasets.Dataset) {
	one := *c
	one.Train.Epochs, one.Train.Steps, one.Train.Boundary = 0, steps, max(1, steps/10)
	one.Schedule = configs.Schedule{Pos: c.Schedule.Pos, Name: "constant", Warmup: min(c.Schedule.Warmup, steps/10)}
	one.EarlyStopping.Patience = 0
	one.Checkpoint.Every, one.Checkpoint.EveryTime = steps, 0
	batch := *data
	batch.Train, batch.Val = data.Train.FirstBatch(c.Train.Batch), nil
	batch.Info.Fingerprint = fmt.Sprintf("%s%d:%s", restore.OneBatch, batch.Train.Samples(), data.Info.Fingerprint)
	return &one, &batch
}
