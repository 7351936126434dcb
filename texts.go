package berth

import (
	"bytes"
	"context"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/tokenizer"
)

// openFor reads the data of a run that begins or goes on.
func openFor(ctx context.Context, c *configs.Config, o OpenOptions) (*datasets.Dataset, error) {
	s := datasetSpec(c)
	s.Text.Progress = o.Reading
	if o.Resume != "" && c.Data.Tokenizer != "" {
		s.Text.Known = ownTokenizer(ctx, c, o.Resume)
	}
	return openSpec(ctx, c, s, o.Data)
}

// ownTokenizer is the tokenizer in the newest checkpoint of a run, if it is the one
// that the config asks for and need not be there any more, or would be learnt
// again; otherwise nil. A folder that cannot be resumed is refused later.
func ownTokenizer(ctx context.Context, c *configs.Config, dir string) tokenizer.Tokenizer {
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

// keepTokenizer puts a learnt tokenizer, or that of a file, into the run folder.
func keepTokenizer(f *rundir.Folder, info *datasets.Info) error {
	bpe, ok := info.Tokenizer.(*tokenizer.BPE)
	if !ok {
		return nil
	}
	var text bytes.Buffer
	if err := bpe.Write(&text); err != nil {
		return err
	}
	return f.SetTokenizer(text.Bytes())
}
