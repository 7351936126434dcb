package restore

import (
	"context"
	"slices"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/tokenizer"
)

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

// Tokenizer is the tokenizer in the newest checkpoint of a run, if it is the one
// that the config asks for and need not be there any more, or would be learnt
// again; otherwise nil. A folder that cannot be resumed is refused later.
func Tokenizer(ctx context.Context, c *configs.Config, dir string) tokenizer.Tokenizer {
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

// Columns are the kinds that the newest checkpoint of a run has found for the columns of its table,
// and the description of its data, if the config asks for no others; otherwise nil.
func Columns(ctx context.Context, c *configs.Config, dir string) ([]configs.Column, *datasets.Info) {
	then, info := newestInfo(ctx, dir)
	if info == nil || info.Columns == nil || !sameColumns(&then.Data, &c.Data) {
		return nil, nil
	}
	return then.Data.Columns, info
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
