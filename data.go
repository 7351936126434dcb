package berth

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/checkpoint/restore"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/executor/session"
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
	if data, err = datasets.Open(ctx, s); err != nil {
		return nil, dataError(ctx, c, err)
	}
	data.Train = data.Train.InBatches(c.Train.Batch)
	return data, nil
}

// ReadData reads the config's data, without a model. It also describes the columns of a
// table of numbers.
func ReadData(ctx context.Context, c *configs.Config) (*datasets.Dataset, error) {
	if err := checkConfig(ctx, c); err != nil {
		return nil, err
	}
	s := datasetSpec(c)
	s.Describe = true
	return openSpec(ctx, c, s, nil)
}

// DescribeTable describes the columns of the config's table, over all its rows, whichever is
// the label.
func DescribeTable(ctx context.Context, c *configs.Config) ([]columns.Description, error) {
	if err := checkConfig(ctx, c); err != nil {
		return nil, err
	}
	list, err := datasets.DescribeTable(ctx, datasetSpec(c))
	if err != nil {
		return nil, dataError(ctx, c, err)
	}
	return list, nil
}

// dataError gives an error about data its place in the config.
func dataError(ctx context.Context, c *configs.Config, err error) error {
	if ctx.Err() != nil { // the data may well be good
		return fmt.Errorf("%w while the data was read", context.Cause(ctx))
	}
	return configs.At(c.Where("data."+datasets.Blame(err)), session.BadData(err))
}

// openFor reads the data of a run that begins or goes on.
func openFor(ctx context.Context, c *configs.Config, o OpenOptions) (*datasets.Dataset, error) {
	s := datasetSpec(c)
	s.Text.Progress = o.Reading
	if o.Resume == "" {
		return openSpec(ctx, c, s, o.Data)
	}
	if c.Data.Tokenizer != "" {
		s.Text.Known = ownTokenizer(ctx, c, o.Resume)
	}
	if c.Data.Source == "csv" {
		if then, info := newestInfo(ctx, o.Resume); info != nil && info.Columns != nil && sameColumns(&then.Data, &c.Data) {
			s.Like, s.GoesOn = info, true
			c.Data.Columns = then.Data.Columns
		}
	}
	return openSpec(ctx, c, s, o.Data)
}

// sameColumns reports whether a config asks for the kinds that a run has found.
func sameColumns(then, now *configs.Data) bool {
	if !slices.Equal(then.Missing, now.Missing) || (then.Missing == nil) != (now.Missing == nil) {
		return false
	}
	found := map[string]configs.Column{}
	for _, x := range then.Columns {
		found[x.Name] = x
	}
	for _, x := range now.Columns {
		was, ok := found[x.Name]
		if !ok && x.Name != columns.All {
			was = found[columns.All]
		}
		if x.Kind != "" && x.Kind != was.Kind || x.Missing != "" && x.Missing != was.Missing || x.Order != "" && x.Order != was.Order || x.Top != was.Top {
			return false
		}
	}
	return true
}

// newestInfo is the config and the description of the data in the newest checkpoint of a run;
// nil where there is none. A folder that cannot be resumed is refused later.
func newestInfo(ctx context.Context, dir string) (*configs.Config, *datasets.Info) {
	f, err := rundir.Find(ctx, dir, false, 0)
	if err != nil {
		return nil, nil
	}
	m := f.Snapshot.Manifest
	if f.Close() != nil {
		return nil, nil
	}
	then, err := configs.Parse("config", m.Config, configs.Overlay{})
	if err != nil {
		return nil, nil
	}
	st, err := runstate.Of(&m)
	if err != nil {
		return nil, nil
	}
	return then, &st.Data
}

// ownTokenizer is the tokenizer in the newest checkpoint of a run, if it is the one
// that the config asks for and need not be there any more, or would be learnt
// again; otherwise nil. A folder that cannot be resumed is refused later.
func ownTokenizer(ctx context.Context, c *configs.Config, dir string) tokenizer.Tokenizer {
	then, info := newestInfo(ctx, dir)
	if info == nil {
		return nil
	}
	now, err := c.Rooted()
	if err != nil || then.Data.Tokenizer != now.Data.Tokenizer || now.Data.Tokenizer == "char" {
		return nil
	}
	return info.Tokenizer
}

// filled is the samples of a program's own that the config's source stands for: those
// that were given, or those of a registered source. It is nil for other sources.
func filled(ctx context.Context, c *configs.Config, given *custom.Set) (*datasets.Filled, error) {
	where := c.Where("data.source")
	switch {
	case given != nil && c.Data.Source != configs.SourceGiven:
		return nil, configs.At(where, fmt.Errorf("%w: the program gives samples (OpenOptions.Data), but data.source is %s: write `data: given`", ErrOptions, c.Data.Source))
	case given == nil && c.Data.Source == configs.SourceGiven:
		return nil, configs.At(where, fmt.Errorf("%w: data.source is given, and the program gives no samples: it does so with OpenOptions.Data, and evaluates with Run.Eval", ErrOptions))
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
	return configs.At(c.Where("data.source"), fmt.Errorf("%w: %w", ErrData, err))
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
