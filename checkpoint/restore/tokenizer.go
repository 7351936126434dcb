package restore

import (
	"context"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets/tokenizer"
)

// Tokenizer is the tokenizer in the newest checkpoint of a run, if it is the one
// that the config asks for and need not be there any more, or would be learnt
// again; otherwise nil. A folder that cannot be resumed is refused later.
func Tokenizer(ctx context.Context, c *configs.Config, dir string) tokenizer.Tokenizer {
	f, err := rundir.Find(ctx, dir, false, 0)
	if err != nil {
		return nil
	}
	m := f.Snapshot.Manifest
	if f.Close() != nil {
		return nil
	}
	then, err := configs.Parse("config", m.Config, configs.Overlay{})
	if err != nil {
		return nil
	}
	now, err := c.Rooted()
	if err != nil || then.Data.Tokenizer != now.Data.Tokenizer || now.Data.Tokenizer == "char" {
		return nil
	}
	st, err := runstate.Of(&m)
	if err != nil {
		return nil
	}
	return st.Data.Tokenizer
}
