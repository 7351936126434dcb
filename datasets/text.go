package datasets

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/datasets/tokenizer"
)

// openText reads a text as tokens. A sample is a window of Context tokens; its
// target is the window one token later. The windows of a part begin at multiples
// of Context, so that an epoch reads each token once. The validation part is the
// end of the text.
func openText(ctx context.Context, s Spec) (*Dataset, error) {
	if err := s.Text.check(); err != nil {
		return nil, err
	}
	if isBin(s.Path) {
		return openBin(ctx, s)
	}
	c, err := openCorpus(s, s.textPaths()...)
	if err != nil {
		return nil, err
	}
	t, ids, err := c.ids(ctx, s, s.Path)
	if err != nil {
		return nil, err
	}
	ds, err := splitOrWhole(s, func(fraction float64) (*Dataset, error) { return splitText(ctx, s, t, ids, fraction) })
	if err != nil {
		return nil, err
	}
	ds.Notes = c.notes()
	if vocab := s.learns(); t.Len() < vocab {
		ds.Notes = append(ds.Notes, fmt.Sprintf("data.tokenizer %s: the tokenizer has %d tokens: no further pair comes twice in the text", s.Text.Tokenizer, t.Len()))
	}
	return ds, nil
}

// check reports options that cannot be followed.
func (o TextOptions) check() error {
	if o.Context < 1 {
		return fmt.Errorf("%w: text needs a context of at least 1 token, not %d", ErrSpec, o.Context)
	}
	return nil
}

// ids are the ids of a corpus, and their tokenizer.
func (c *corpus) ids(ctx context.Context, s Spec, path string) (tokenizer.Tokenizer, textIDs, error) {
	t, count, err := c.tokenizer(ctx, s)
	if err != nil {
		return nil, textIDs{}, err
	}
	c.anyBytes = t.Kind() == "bytes"
	switch t.(type) {
	case *tokenizer.BPE:
		ids, err := c.cached(ctx, t, path, s.Memory)
		return t, ids, err
	case tokenizer.Bytes:
		count, err = c.bytes(ctx)
	case *tokenizer.Chars:
		if count == 0 {
			_, count, err = c.chars(ctx)
		}
	}
	if err != nil {
		return nil, textIDs{}, err
	}
	ids, err := c.inMemory(ctx, t, path, count, s.Memory)
	return t, ids, err
}

// tokenizer is the one that the options ask for. count is the number of tokens if
// it was counted, and 0 otherwise.
func (c *corpus) tokenizer(ctx context.Context, s Spec) (t tokenizer.Tokenizer, count int64, err error) {
	if t = s.knownTokenizer(); t != nil {
		return t, 0, nil
	}
	name := s.Text.Tokenizer
	number, learns := strings.CutPrefix(name, learnPrefix)
	switch {
	case name == "" || name == "char":
		return c.chars(ctx)
	case learns:
		vocab, err := strconv.Atoi(number)
		if err != nil {
			return nil, 0, blame("tokenizer", fmt.Errorf("%w: tokenizer %s: expected %sN, where N is the number of tokens, such as %s4096", ErrSpec, name, learnPrefix, learnPrefix))
		}
		t, err = c.cachedLearn(ctx, vocab)
		return t, 0, err
	}
	t, err = namedTokenizer(name)
	return t, 0, err
}

// textInputs reads the windows of a text with the tokenizer of training. A
// shorter last window has a table of its own.
func textInputs(ctx context.Context, s Spec, info *Info, path string) ([]*table, error) {
	if err := s.Text.check(); err != nil {
		return nil, err
	}
	if info.Tokenizer == nil {
		return nil, fmt.Errorf("%w: the model was not trained on text: use the source that it was trained on", ErrSpec)
	}
	s.Like = info
	ids, err := inputIDs(ctx, s, path)
	if err != nil {
		return nil, err
	}
	n, t := ids.len(), s.Text.Context
	if n == 0 {
		return nil, fmt.Errorf("%w: %s is empty: put text in it", ErrTooFew, path)
	}
	var ts []*table
	rows := n / t
	if rows > 0 {
		ts = append(ts, &table{rows: rows, columns: []column{ids.slice(0, rows*t).column(t)}, mapping: ids.mapping})
	}
	if rest := n % t; rest > 0 {
		ts = append(ts, &table{rows: 1, columns: []column{ids.slice(rows*t, n).column(rest)}, mapping: ids.mapping})
	}
	return ts, nil
}

// inputIDs are the ids of a text to predict from.
func inputIDs(ctx context.Context, s Spec, path string) (textIDs, error) {
	if strings.HasSuffix(path, binSuffix) {
		return readBin(ctx, path, s.Like.Tokenizer)
	}
	c, err := openCorpus(s, path)
	if err != nil {
		return textIDs{}, err
	}
	for _, text := range c.notes() {
		if s.Text.Note != nil {
			s.Text.Note(text)
		}
	}
	_, ids, err := c.ids(ctx, s, path)
	return ids, err
}

// LearnOptions are the options of LearnTokenizer.
type LearnOptions struct {
	Vocab    int    // tokens; see [tokenizer.LearnOptions]
	Field    string // as in TextOptions
	Progress func(doing string, share float64)
	// FieldName names Field in errors, such as a flag; "": LearnOptions.Field.
	FieldName string
	// Note hears how the text is other than its user may expect; nil: nobody.
	Note func(text string)
}

// LearnTokenizer learns a byte pair encoding from the text of files and folders, as
// the tokenizer bpe:N of a text does.
func LearnTokenizer(ctx context.Context, paths []string, o LearnOptions) (*tokenizer.BPE, error) {
	c := &corpus{field: o.Field, progress: o.Progress, learns: true, fieldName: cmp.Or(o.FieldName, "LearnOptions.Field")}
	if err := c.addAll(paths); err != nil {
		return nil, err
	}
	if c.size == 0 && !slices.Contains(paths, BuiltinShakespeare) {
		return nil, fmt.Errorf("%w: the text is empty: give files with text", ErrTooFew)
	}
	for _, text := range c.notes() {
		if o.Note != nil {
			o.Note(text)
		}
	}
	t, err := c.learn(ctx, o.Vocab)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return t, err
}
