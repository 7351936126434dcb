package berth

import (
	"errors"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/partition"
)

// IsUsage reports whether an error is about what was asked for, in a config or
// a call, and not about what happened while doing it.
func IsUsage(err error) bool {
	for _, cause := range []error{
		graph.ErrShape, models.ErrModel, optim.ErrSpec, datasets.ErrSpec,
		partition.ErrStages, partition.ErrMemory,
		ErrHasCheckpoint, ErrNoCheckpoint, ErrChanged, ErrInit,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
