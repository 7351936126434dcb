package datasets

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/berth-ml/berth/engine/shape"
)

// openText reads a text as characters. A sample is a window of Context
// characters; its target is the window one character later. The windows of a
// part begin at multiples of Context, so that an epoch reads each character
// once. The validation part is the end of the text.
func openText(ctx context.Context, s Spec) (*Dataset, error) {
	text, err := readText(ctx, s, s.Path)
	if err != nil {
		return nil, err
	}
	vocab := NewVocabulary(text)
	if s.Like != nil {
		vocab = s.Like.Vocab
	}
	ids, err := vocab.Encode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Path, err)
	}
	ds, err := splitText(s, vocab, ids, s.splitOr(0.9))
	if s.Like != nil && (err != nil || ds.Info.Fingerprint != s.Like.Fingerprint) {
		return splitText(s, vocab, ids, 1)
	}
	return ds, err
}

// splitText makes the dataset of a text's ids, the first of them for training.
func splitText(s Spec, vocab *Vocabulary, ids []int32, fraction float64) (*Dataset, error) {
	n := trainCount(len(ids), fraction)
	train, err := windows(s, "training", ids[:n])
	if err != nil {
		return nil, err
	}
	ds := &Dataset{Name: "text " + s.Path, Train: &Part{table: train, count: train.rows}}
	shuffle(ds.Train, s)
	tables := []*table{train}
	if fraction < 1 {
		val, err := windows(s, "validation", ids[n:])
		if err != nil {
			return nil, err
		}
		ds.Val = &Part{table: val, count: val.rows}
		tables = append(tables, val)
	}
	ds.Info = Info{Inputs: []Field{train.columns[0].field}, Target: train.columns[1].field, Classes: vocab.Len(),
		Tokens: vocab.Len(), Vocab: vocab, Fingerprint: fingerprint(s, [2]any{s.Text, vocab.runes}, tables...)}
	return ds, nil
}

// readText reads a text and checks the context and the encoding.
func readText(ctx context.Context, s Spec, path string) (string, error) {
	if s.Text.Context < 1 {
		return "", fmt.Errorf("%w: text needs a context of at least 1 character, not %d", ErrSpec, s.Text.Context)
	}
	var data []byte
	var err error
	if path == BuiltinShakespeare {
		data, err = readBuiltin("tinyshakespeare.txt.gz")
	} else {
		data, err = readFile(ctx, path)
	}
	if err != nil {
		return "", err
	}
	text := string(data)
	if !utf8.ValidString(text) {
		line, column := position(text, invalidAt(text))
		return "", fmt.Errorf("%w: %s:%d:%d: not UTF-8: convert the file to UTF-8", ErrFormat, path, line, column)
	}
	return text, nil
}

// invalidAt is the position of the first byte of a text that is not UTF-8.
func invalidAt(text string) int {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRuneInString(text[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return len(text)
}

// windows is the table of a text's windows and their targets. Both columns are
// views of ids; the targets begin one id later.
func windows(s Spec, part string, ids []int32) (*table, error) {
	t := s.Text.Context
	rows := (len(ids) - 1) / t
	if len(ids) < 2 || rows < 1 {
		return nil, blame("context", fmt.Errorf("%w: the %s part of %s has %d characters, but a window of %d and its target need %d: shorten the context or change the split",
			ErrTooFew, part, s.Path, len(ids), t, t+1))
	}
	input := newColumn(Field{"input", shape.I32(t)}, shape.Bytes(ids))
	target := input
	target.field.Name = "target"
	target.offset = 4 // bytes of an id
	return &table{rows: rows, columns: []column{input, target}}, nil
}

// textInputs reads the windows of a text, in the vocabulary of training. A
// shorter last window has a table of its own.
func textInputs(ctx context.Context, s Spec, info *Info, path string) ([]*table, error) {
	text, err := readText(ctx, s, path)
	if err != nil {
		return nil, err
	}
	if info.Vocab == nil {
		return nil, fmt.Errorf("%w: the model was not trained on text: use the source that it was trained on", ErrSpec)
	}
	ids, err := info.Vocab.Encode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: %s is empty: put text in it", ErrTooFew, path)
	}
	rows := len(ids) / s.Text.Context
	whole, rest := ids[:rows*s.Text.Context], ids[rows*s.Text.Context:]
	var ts []*table
	if rows > 0 {
		ts = append(ts, idTable(rows, whole))
	}
	if len(rest) > 0 {
		ts = append(ts, idTable(1, rest))
	}
	return ts, nil
}

// idTable is the table of consecutive windows; rows is their number.
func idTable(rows int, ids []int32) *table {
	f := Field{"input", shape.I32(len(ids) / rows)}
	return &table{rows: rows, columns: []column{newColumn(f, shape.Bytes(ids))}}
}
