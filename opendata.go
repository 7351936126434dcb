package berth

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/internal/errs"
)

// openData reads the config's data. like describes the data that a model was
// trained on; it is nil before training.
func openData(ctx context.Context, c *configs.Config, like *datasets.Info) (*datasets.Dataset, error) {
	s := datasetSpec(c)
	s.Like = like
	return openSpec(ctx, c, s, nil)
}

// openSpec reads data as a specification that was made from the config says. given are
// the program's samples, or nil.
func openSpec(ctx context.Context, c *configs.Config, s datasets.Spec, given *custom.Set) (data *datasets.Dataset, err error) {
	if s.Filled, err = filled(ctx, c, given); err != nil {
		return nil, err
	}
	data, err = datasets.Open(ctx, s)
	switch {
	case err == nil:
		data.Train = data.Train.InBatches(c.Train.Batch)
		return data, nil
	case ctx.Err() != nil: // the data may well be good
		return nil, fmt.Errorf("%w while the data was read", context.Cause(ctx))
	}
	return nil, at(c.Where("data."+datasets.Blame(err)), unusable(err))
}

// unusable is the error of data that cannot be used.
func unusable(err error) error {
	if limit := host.Scarce(); limit != "" && errors.Is(err, datasets.ErrMemory) {
		err = fmt.Errorf("%w: raise %s", err, limit)
	}
	if errors.Is(err, datasets.ErrFormat) || errors.Is(err, datasets.ErrSpec) { // which say that much themselves
		return errs.With(err, ErrData)
	}
	return fmt.Errorf("%w: %w", ErrData, err)
}
