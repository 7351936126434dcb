package datasets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
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
	chats, err := c.holdsChats(ctx)
	switch {
	case err == nil && chats:
		if c.chats, err = s.chatFormat(); err == nil {
			return openChats(ctx, s, c)
		}
	case err == nil:
		if err = s.plain(); err != nil && c.lacks {
			err = blame("field", fmt.Errorf("%w: the first line of %s has no key %q: set data.field to the key of its conversation", ErrFormat, c.files[0].path, c.field))
		}
	}
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
		ds.first = []string{fmt.Sprintf("data.tokenizer %s: the tokenizer has %s: no further pair comes twice in the text", s.Text.Tokenizer, units.Count(t.Len(), "token"))}
		ds.Notes = append(ds.Notes, ds.first...)
	}
	return ds, nil
}

// plain refuses what only conversations have, of other text.
func (s Spec) plain() error {
	const not = "%w: %s is no file of conversations, JSON lines of which a key is a list of messages"
	switch {
	case s.Like != nil && s.Like.Chats:
		return blame("field", fmt.Errorf(not+", which the model was trained on: set data.field to that key", ErrFormat, s.textFiles()))
	case s.Text.ChatTemplate != "":
		return blame("chat_template", fmt.Errorf(not+": leave data.chat_template out, or set data.field to that key", ErrSpec, s.textFiles()))
	case s.Text.Truncate:
		return blame("truncate", fmt.Errorf(not+", and only those are cut off: leave data.truncate out", ErrSpec, s.textFiles()))
	}
	return nil
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
	if info.Chats {
		t, err := chatInputs(ctx, s, info, path)
		return []*table{t}, err
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
	_, ids, err := c.ids(ctx, s, path)
	for _, text := range c.notes() {
		s.note(text)
	}
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

// learnPrefix begins the name of a tokenizer that is learnt from the text.
const learnPrefix = "bpe:"

// learns is the number of tokens that are asked of the text; 0 if the tokenizer is
// not learnt from it.
func (s Spec) learns() int {
	number, learns := strings.CutPrefix(s.Text.Tokenizer, learnPrefix)
	if !learns || s.knownTokenizer() != nil {
		return 0
	}
	n, _ := strconv.Atoi(number) // the text was opened with it
	return n
}

// knownTokenizer is the tokenizer that a model was trained with; nil before.
func (s Spec) knownTokenizer() tokenizer.Tokenizer {
	if s.Like != nil {
		return s.Like.Tokenizer
	}
	return s.Text.Known
}

// namedTokenizer is a tokenizer that does not depend on the text.
func namedTokenizer(name string) (tokenizer.Tokenizer, error) {
	switch name {
	case "bytes":
		return tokenizer.Bytes{}, nil
	case "gpt2":
		return tokenizer.GPT2(), nil
	}
	t, err := tokenizer.Load(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: give char, bytes, gpt2, bpe:4096 or the path of a tokenizer.json", err)
	}
	if errors.Is(err, tokenizer.ErrFormat) { // it names the file
		return nil, blame("tokenizer", fmt.Errorf("data.tokenizer: %w", err))
	}
	if err != nil {
		return nil, blame("tokenizer", fmt.Errorf("data.tokenizer %s: %w", name, err))
	}
	return t, nil
}

// splitOrWhole opens a text in two parts or, if a model is to be judged by it that
// was trained on another, in one.
func splitOrWhole(s Spec, open func(fraction float64) (*Dataset, error)) (*Dataset, error) {
	ds, err := open(s.splitOr(0.9))
	if s.Like != nil && (err != nil || ds.Info.Fingerprint != s.Like.Fingerprint) {
		return open(1)
	}
	return ds, err
}

// splitText makes the dataset of a text's ids, the first of them for training.
func splitText(ctx context.Context, s Spec, t tokenizer.Tokenizer, ids textIDs, fraction float64) (*Dataset, error) {
	sum, err := textSum(ctx, t, &ids)
	if err != nil {
		return nil, err
	}
	var parts textParts
	switch n := trainCount(ids.len(), fraction); {
	case fraction == 1:
		parts.train = ids
	case s.Division != nil:
		parts = divideText(s.Division, ids)
	default:
		val := ids.slice(n, ids.len())
		parts = textParts{train: ids.slice(0, n), val: &val}
	}
	return textDataset(ctx, s, t, sum, lengthen, parts)
}

// textParts are the ids of each part; nil: there is no such part.
type textParts struct {
	train     textIDs
	val, test *textIDs
}

// divideText takes the test part from the end of a text, and the validation part from before it.
func divideText(d *Division, ids textIDs) (p textParts) {
	end := ids.len()
	cut := func(share float64) *textIDs {
		if share == 0 {
			return nil
		}
		from := max(0, end-rowsOfShare(ids.len(), share))
		part := ids.slice(from, end)
		end = from
		return &part
	}
	p.test = cut(d.Test)
	p.val = cut(d.Val)
	p.train = ids.slice(0, end)
	return p
}

// lengthen says what to do about a part that is too short.
const lengthen = "shorten the context or change the split"

// textSum is a hash of ids in hex; "" for characters, whose windows are hashed
// instead.
func textSum(ctx context.Context, t tokenizer.Tokenizer, all ...*textIDs) (sum string, err error) {
	if _, ok := t.(*tokenizer.Chars); ok {
		return "", nil
	}
	for _, ids := range all {
		one, err := ids.hash(ctx)
		if err != nil {
			return "", err
		}
		sum += one
	}
	return sum, nil
}

// textDataset makes the dataset of the ids of some parts, which sum is of. do says what to do
// about a part that is too short.
func textDataset(ctx context.Context, s Spec, t tokenizer.Tokenizer, sum, do string, parts textParts) (*Dataset, error) {
	ids := parts.train
	if ids.len() == 0 && (parts.val == nil || parts.val.len() == 0) {
		return nil, fmt.Errorf("%w: %s is empty: name a text to train on", ErrTooFew, s.textFiles())
	}
	train, err := windows(s, "training", do, ids)
	if err != nil {
		return nil, err
	}
	ds := &Dataset{Name: s.textName(), Train: &Part{table: train, count: train.rows}}
	shuffle(ds.Train, s)
	tables := []*table{train}
	for _, p := range []struct {
		name string
		ids  *textIDs
		into **Part
	}{{"validation", parts.val, &ds.Val}, {"test", parts.test, &ds.Test}} {
		if p.ids == nil {
			continue
		}
		table, err := windows(s, p.name, do, *p.ids)
		if err != nil {
			return nil, err
		}
		*p.into = &Part{table: table, count: table.rows}
		tables = append(tables, table)
	}
	print, err := textPrint(ctx, s, t, sum, tables)
	if err != nil {
		return nil, err
	}
	ds.Info = TextInfo(t, s.Text.Context)
	ds.Info.Fingerprint = print
	return ds, nil
}

// TextInfo describes windows of a text that was not read and so has no fingerprint,
// for a model that was trained elsewhere.
func TextInfo(t tokenizer.Tokenizer, context int) Info {
	return Info{Inputs: []Field{{"input", shape.I32(context)}}, Target: Field{"target", shape.I32(context)}, Classes: t.Len(), Tokens: t.Len(), Tokenizer: t}
}

// textPrint is the fingerprint of a text. That of characters is as it was before
// there were other tokenizers; for others a hash of the ids stands for the windows,
// of which there may be too many to hash at each start.
func textPrint(ctx context.Context, s Spec, t tokenizer.Tokenizer, sum string, tables []*table) (string, error) {
	context := struct{ Context int }{s.Text.Context}
	if chars, ok := t.(*tokenizer.Chars); ok {
		return fingerprint(ctx, s, [2]any{context, chars.Runes()}, tables...)
	}
	rows := make([]int, len(tables))
	for i, t := range tables {
		rows[i] = t.rows
	}
	return fingerprint(ctx, s, []any{context, t.Hash(), sum, rows})
}

// windows is the table of a text's windows and their targets. Both columns are
// views of ids; the targets begin one id later.
func windows(s Spec, part, do string, ids textIDs) (*table, error) {
	t, n := s.Text.Context, ids.len()
	rows := (n - 1) / t
	if n < 2 || rows < 1 {
		return nil, blame("context", fmt.Errorf("%w: the %s part of %s has %s, but a window of %s and its target need %s: %s",
			ErrTooFew, part, s.textFiles(), units.Count(n, "token"), units.Thousands(t), units.Thousands(t+1), do))
	}
	input := ids.column(t)
	target := input
	target.field.Name = "target"
	target.offset = ids.width
	return &table{rows: rows, columns: []column{input, target}, mapping: ids.mapping}, nil
}

// TargetBytes is the number of target tokens in a part of a text, and the bytes
// that they stand for. It reads the whole part.
func (p *Part) TargetBytes(ctx context.Context, t tokenizer.Tokenizer) (tokens, bytes int64, err error) {
	sizes := make([]int64, t.Len())
	var text []byte
	for id := range sizes {
		text = t.Decode(text[:0], []uint32{uint32(id)})
		sizes[id] = int64(len(text))
	}
	const batch = 64
	if p.Buckets() != nil {
		p = p.InOrder() // it may be in batches of another size
	}
	dst := p.Alloc(batch)
	target := len(dst) - 1
	size := int(p.Fields()[target].Meta.Elems())
	for c := (Cursor{}); ctx.Err() == nil; c.Index += batch {
		n, err := p.Read(c, batch, dst)
		if errors.Is(err, io.EOF) {
			return tokens, bytes, nil
		}
		if err != nil {
			return 0, 0, err
		}
		for _, id := range shape.View[int32](dst[target])[:n*size] {
			if id != Padding {
				bytes += sizes[id]
				tokens++
			}
		}
		if n < batch {
			return tokens, bytes, nil
		}
	}
	return 0, 0, context.Cause(ctx)
}
