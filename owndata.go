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
func filled(ctx context.Context, c *configs.Config, given *custom.Set) (*datasets.Filled, error) {
	where := c.Where("data.source")
	switch {
	case given != nil && c.Data.Source != configs.SourceGiven:
		return nil, at(where, fmt.Errorf("%w: the program gives samples (OpenOptions.Data), but data.source is %s: write `data: given`", ErrOptions, c.Data.Source))
	case given == nil && c.Data.Source == configs.SourceGiven:
		return nil, at(where, fmt.Errorf("%w: data.source is given, and the program gives no samples: it does so with OpenOptions.Data, and evaluates with Run.Eval", ErrOptions))
	}
	set := given
	if set == nil {
		var own bool
		var err error
		if set, own, err = custom.Open(ctx, c.Data.Source, c.Data.Keys, c.Data.Path); !own || err != nil {
			return nil, ownError(ctx, c, err)
		}
	}
	f, err := set.Filled()
	return f, ownError(ctx, c, err)
}

// ownError gives an error of a program's own data its place in the config.
func ownError(ctx context.Context, c *configs.Config, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w while the data was read", context.Cause(ctx))
	}
	return at(c.Where("data.source"), fmt.Errorf("%w: %w", ErrData, err))
}

// inputSpec describes samples in a file to predict from.
func inputSpec(ctx context.Context, c *configs.Config, path string) (datasets.Spec, error) {
	s := datasetSpec(c)
	if c.Data.Source == configs.SourceGiven {
		return s, fmt.Errorf("%w: %s: the data is a program's own, which reads no files to predict from", ErrData, path)
	}
	set, own, err := custom.OpenInputs(ctx, c.Data.Source, c.Data.Keys, c.Data.Path, path)
	if !own {
		return s, nil
	}
	if err == nil {
		s.Filled, err = set.Filled()
	}
	switch {
	case err == nil:
		return s, nil
	case ctx.Err() != nil:
		return s, fmt.Errorf("%w while %s was read", context.Cause(ctx), path)
	}
	return s, fmt.Errorf("%w: %w", ErrData, err)
}
