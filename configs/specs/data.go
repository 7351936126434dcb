package specs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/internal/errs"
)

// DataOptions say what beside the config decides how its data is read.
type DataOptions struct {
	GoesOn   bool                              // Like is of a run that goes on: its columns have the kinds that it has found
	Describe bool                              // the columns of a table are described, too
	Like     *datasets.Info                    // describes the data that a model was trained on; nil before training
	With     []string                          // columns of a table that Part.With has
	Given    *custom.Set                       // the program's samples; nil: it gives none
	Known    tokenizer.Tokenizer               // reads a text in place of the one that the config names; nil
	Chat     *chat.Format                      // makes text of conversations, as datasets.TextOptions.KnownChat; nil
	Progress func(doing string, share float64) // of reading a text, from 0 to 1; nil
	// Open opens it in place of [datasets.Open], such as from a [datasets.Shelf]; nil.
	Open func(context.Context, datasets.Spec) (*datasets.Dataset, error)
}

// OpenData reads the config's data.
func OpenData(ctx context.Context, c *configs.Config, o DataOptions) (_ *datasets.Dataset, err error) {
	s := datasetSpec(c)
	s.Like, s.GoesOn, s.Describe, s.With, s.Text.Known, s.Text.KnownChat, s.Text.Progress = o.Like, o.GoesOn, o.Describe, o.With, o.Known, o.Chat, o.Progress
	if s.Filled, err = filled(ctx, c, o.Given); err != nil {
		return nil, err
	}
	if size := c.Data.Size; len(size) == 2 && o.Like == nil {
		if err := checkCrops(c, size[0], size[1]); err != nil {
			return nil, err
		}
	}
	open := datasets.Open
	if o.Open != nil {
		open = o.Open
	}
	read, err := open(ctx, s)
	if err != nil {
		return nil, dataError(ctx, c, err)
	}
	if err := cmp.Or(checkWeights(c, &read.Info), checkPositive(c, &read.Info)); err != nil {
		return nil, err
	}
	if in := read.Info.Inputs; read.Info.Pictures != nil && o.Like == nil {
		if err := checkCrops(c, in[0].Meta.Shape[1], in[0].Meta.Shape[2]); err != nil {
			return nil, err
		}
	}
	own := *read // which others may have, too
	own.Train = read.Train.InBatches(c.Train.Batch)
	return &own, nil
}

// checkCrops refuses a change to images of that size that would move them wholly out of sight. Those of an earlier run stay as
// they are.
func checkCrops(c *configs.Config, height, width int) error {
	for i, x := range c.Data.Augment {
		if least := min(height, width); x.Name == "crop" && x.By >= float64(least) {
			key := fmt.Sprintf("data.augment[%d].crop", i)
			if least == 1 {
				return configs.At(c.Where(key), fmt.Errorf("%w: %s: images of %d×%d pixels leave no room to move: leave it out", errs.ErrOptions, key, height, width))
			}
			return configs.At(c.Where(key), fmt.Errorf("%w: %s: got %v, which would move images of %d×%d pixels out of sight: give at most %d", errs.ErrOptions, key, x.By, height, width, least-1))
		}
	}
	return nil
}

// Chat is how the config makes text of conversations, for a model that does it as known says; nil: no model is known.
func Chat(c *configs.Config, known *chat.Format) (*chat.Format, error) {
	s := datasetSpec(c)
	s.Text.KnownChat = known
	f, err := s.Chat()
	if err != nil {
		return nil, dataError(context.Background(), c, err)
	}
	return f, nil
}

// DescribeTable describes the columns of the config's table, over all its rows, whichever is
// the label. It gives the table's format and path, too.
func DescribeTable(ctx context.Context, c *configs.Config) (name string, list []columns.Description, err error) {
	if name, list, err = datasets.DescribeTable(ctx, datasetSpec(c)); err != nil {
		return "", nil, dataError(ctx, c, err)
	}
	return name, list, nil
}

// NamedColumns is data.columns of a config's table, by the names of columns that it gives by number.
func NamedColumns(ctx context.Context, c *configs.Config) ([]configs.Column, error) {
	if !slices.ContainsFunc(c.Data.Columns, func(x configs.Column) bool { _, err := strconv.Atoi(x.Name); return err == nil }) {
		return c.Data.Columns, nil
	}
	list, err := datasets.NamedOptions(ctx, datasetSpec(c))
	if err != nil {
		return nil, dataError(ctx, c, err)
	}
	return FoundColumns(list), nil
}

// dataError gives an error about data its place in the config.
func dataError(ctx context.Context, c *configs.Config, err error) error {
	if ctx.Err() != nil { // the data may well be good
		return fmt.Errorf("%w while the data was read", context.Cause(ctx))
	}
	return configs.At(c.Where("data."+datasets.Blame(err)), BadData(err))
}

// filled is the samples of a program's own that the config's source stands for: those
// that were given, or those of a registered source. It is nil for other sources.
func filled(ctx context.Context, c *configs.Config, given *custom.Set) (*datasets.Filled, error) {
	where := c.Where("data.source")
	switch {
	case given != nil && c.Data.Source != configs.SourceGiven:
		return nil, configs.At(where, fmt.Errorf("%w: the program gives samples (OpenOptions.Data), but data.source is %s: write `data: given`", errs.ErrOptions, c.Data.Source))
	case given == nil && c.Data.Source == configs.SourceGiven:
		return nil, configs.At(where, fmt.Errorf("%w: data.source is `given`, but the program passed no samples: set OpenOptions.Data, and evaluate them with Run.Eval", errs.ErrOptions))
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
	return configs.At(c.Where("data.source"), fmt.Errorf("%w: %w", errs.ErrData, err))
}

// Inputs describes samples in a file to predict from.
func Inputs(ctx context.Context, c *configs.Config, path string) (datasets.Spec, error) {
	s := datasetSpec(c)
	if c.Data.Source == configs.SourceGiven {
		return s, fmt.Errorf("%w: %s cannot be read: the data of this model comes from a program (data.source: given), not from files; give samples as tensors", errs.ErrData, path)
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
	return s, fmt.Errorf("%w: %w", errs.ErrData, err)
}

// BadData is the error of data that cannot be used.
func BadData(err error) error {
	if limit := host.Scarce(); limit != "" && errors.Is(err, datasets.ErrMemory) {
		err = fmt.Errorf("%w: raise %s", err, limit)
	}
	if errors.Is(err, datasets.ErrFormat) || errors.Is(err, datasets.ErrSpec) { // which say that much themselves
		return errs.With(err, errs.ErrData)
	}
	return fmt.Errorf("%w: %w", errs.ErrData, err)
}
