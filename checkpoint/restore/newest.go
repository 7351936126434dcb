package restore

import (
	"context"
	"slices"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/tokenizer"
)

// Newest is the manifest of the newest checkpoint of a run; nil where there is none. A folder that
// cannot be resumed is refused later.
func Newest(ctx context.Context, dir string) *checkpoint.Manifest {
	f, err := rundir.Find(ctx, rundir.Weights{Dir: dir, Last: true})
	if err != nil {
		return nil
	}
	m := f.Snapshot.Manifest
	if f.Close() != nil {
		return nil
	}
	return &m
}

// infoOf is the config and the description of the data in a checkpoint, which may be nil; nil where they cannot be read.
func infoOf(m *checkpoint.Manifest) (*configs.Config, *datasets.Info) {
	if m == nil {
		return nil, nil
	}
	then, err := configs.Parse("config", m.Config, configs.Overlay{})
	if err != nil {
		return nil, nil
	}
	st, err := runstate.Of(m)
	if err != nil {
		return nil, nil
	}
	return then, &st.Data
}

// Tokenizer is the tokenizer in the newest checkpoint of a run, which may be nil, if it is the one
// that the config asks for and need not be there any more, or would be learnt
// again; otherwise nil.
func Tokenizer(c *configs.Config, newest *checkpoint.Manifest) tokenizer.Tokenizer {
	then, info := infoOf(newest)
	if info == nil {
		return nil
	}
	now, err := c.Rooted()
	if err != nil || then.Data.Tokenizer != now.Data.Tokenizer || now.Data.Tokenizer == "char" {
		return nil
	}
	return info.Tokenizer
}

// Chat is how the newest checkpoint of a run, which may be nil, makes text of conversations, if the tokenizer is
// still the one that the config asks for; otherwise nil. Another data.chat_template leaves the template out.
func Chat(c *configs.Config, newest *checkpoint.Manifest) *chat.Format {
	if Tokenizer(c, newest) == nil {
		return nil
	}
	then, info := infoOf(newest)
	f, _ := ChatOf(c, then, info)
	return f
}

// ChatOf is how a model makes text of conversations, by the description of its data. Where the config asks for
// another template than that of training, same is false, and the template is left out.
func ChatOf(c, then *configs.Config, info *datasets.Info) (f *chat.Format, same bool) {
	now, err := c.Rooted()
	same = err != nil || then.Data.ChatTemplate == now.Data.ChatTemplate
	if same || info.Chat == nil {
		return info.Chat, same
	}
	return info.Chat.Without(), false
}

// Columns are the kinds that the newest checkpoint of a run, which may be nil, has found for the columns of its table,
// and the description of its data, if the config asks for no others; otherwise nil. What was
// measured for the run, such as scaling and the order of classes, stays that way although the
// file has other rows now: the weights know no other.
func Columns(c *configs.Config, newest *checkpoint.Manifest) ([]configs.Column, *datasets.Info) {
	then, info := infoOf(newest)
	if info == nil || then.Data.Source != "csv" || !sameLabels(&then.Data, &c.Data) || !sameColumns(&then.Data, &c.Data) {
		return nil, nil
	}
	return then.Data.Columns, info
}

// sameLabels reports whether two configs take the same columns of a table as labels and features,
// and prepare them alike.
func sameLabels(then, now *configs.Data) bool {
	return then.Label == now.Label && slices.Equal(then.MoreLabels, now.MoreLabels) && slices.Equal(then.Ignore, now.Ignore) && then.Task == now.Task &&
		then.Standardize == now.Standardize && then.StandardizeTarget == now.StandardizeTarget
}

// sameColumns reports whether a config asks for the kinds that a run has found.
func sameColumns(then, now *configs.Data) bool {
	if !slices.Equal(then.Missing, now.Missing) || (then.Missing == nil) != (now.Missing == nil) {
		return false
	}
	asked, found := byName(now.Columns), byName(then.Columns)
	for name, x := range asked {
		was, ok := found[name]
		if !ok && name != columns.All {
			was = found[columns.All]
		}
		if name != columns.All && (x.Kind != "" && x.Kind != was.Kind || x.Missing != "" && x.Missing != was.Missing || x.Order != "" && x.Order != was.Order || x.Top != was.Top) {
			return false
		}
	}
	if all, ok := asked[columns.All]; ok {
		for name, was := range found {
			if _, own := asked[name]; !own && !follows(all, was) {
				return false
			}
		}
	}
	return true
}

func byName(list []configs.Column) map[string]configs.Column {
	out := make(map[string]configs.Column, len(list))
	for _, x := range list {
		out[x.Name] = x
	}
	return out
}

// follows reports whether a column is as the options of all columns ask. An option says nothing
// about kinds that it does not fit: words have no median, and the most frequent one stands for it.
func follows(all, was configs.Column) bool {
	kind := columns.Kind(was.Kind)
	words := kind == columns.Category || kind == columns.Boolean
	leftOut := kind == columns.Text || kind == columns.Identifier || kind == columns.Ignore
	switch {
	case all.Kind != "" && all.Kind != was.Kind:
	case all.Missing != "" && !leftOut && all.Missing != was.Missing && !(words && all.Missing == columns.FillMedian && was.Missing == columns.FillFrequent):
	case all.Top != 0 && kind == columns.Category && all.Top != was.Top:
	case all.Order != "" && kind == columns.Date && all.Order != was.Order:
	default:
		return true
	}
	return false
}
