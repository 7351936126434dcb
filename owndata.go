package berth

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/custom"
)

// filled is the samples of a program's own that the config's source stands for: those
// that were given, or those of a registered source. It is nil for other sources.
func filled(_ context.Context, c *configs.Config, given *custom.Set) (*datasets.Filled, error) {
	where := c.Where("data.source")
	switch {
	case given != nil && c.Data.Source != configs.SourceGiven:
		return nil, at(where, fmt.Errorf("%w: the program gives samples (OpenOptions.Data), but data.source is %s: write `data: given`", ErrOptions, c.Data.Source))
	case given == nil && c.Data.Source == configs.SourceGiven:
		return nil, at(where, fmt.Errorf("%w: data.source is given, and the program gives no samples: it does so with OpenOptions.Data, and evaluates with Run.Eval", ErrOptions))
	case given == nil:
		return nil, nil
	}
	f, err := given.Filled()
	if err != nil {
		return nil, at(where, fmt.Errorf("%w: %w", ErrData, err))
	}
	return f, nil
}

// inputSpec describes samples in a file to predict from.
func inputSpec(_ context.Context, c *configs.Config, path string) (datasets.Spec, error) {
	if c.Data.Source == configs.SourceGiven {
		return datasets.Spec{}, fmt.Errorf("%w: %s: the data is a program's own, which reads no files to predict from", ErrData, path)
	}
	return datasetSpec(c), nil
}
