package datasets

import (
	"context"
	"fmt"
)

// openText reads a text as characters. A sample is a window of Context
// characters; its target is the window one character later. The windows of a
// part begin at multiples of Context, so that an epoch reads each character
// once. The validation part is the end of the text.
func openText(ctx context.Context, s Spec) (*Dataset, error) {
	text, err := textAt(s, s.Path)
	if err != nil {
		return nil, err
	}
	var vocab *Vocabulary
	if s.Like != nil {
		vocab = s.Like.Vocab
	}
	ids, vocab, err := text.encode(ctx, vocab)
	if err != nil {
		return nil, err
	}
	ds, err := splitText(ctx, s, vocab, ids, s.splitOr(0.9))
	if s.Like != nil && (err != nil || ds.Info.Fingerprint != s.Like.Fingerprint) {
		return splitText(ctx, s, vocab, ids, 1)
	}
	return ds, err
}

// splitText makes the dataset of a text's ids, the first of them for training.
func splitText(ctx context.Context, s Spec, vocab *Vocabulary, ids textIDs, fraction float64) (*Dataset, error) {
	n := trainCount(ids.len(), fraction)
	train, err := windows(s, "training", ids.slice(0, n))
	if err != nil {
		return nil, err
	}
	ds := &Dataset{Name: "text " + s.Path, Train: &Part{table: train, count: train.rows}}
	shuffle(ds.Train, s)
	tables := []*table{train}
	if fraction < 1 {
		val, err := windows(s, "validation", ids.slice(n, ids.len()))
		if err != nil {
			return nil, err
		}
		ds.Val = &Part{table: val, count: val.rows}
		tables = append(tables, val)
	}
	print, err := fingerprint(ctx, s, [2]any{s.Text, vocab.runes}, tables...)
	if err != nil {
		return nil, err
	}
	ds.Info = Info{Inputs: []Field{train.columns[0].field}, Target: train.columns[1].field, Classes: vocab.Len(),
		Tokens: vocab.Len(), Vocab: vocab, Fingerprint: print}
	return ds, nil
}

// windows is the table of a text's windows and their targets. Both columns are
// views of ids; the targets begin one id later.
func windows(s Spec, part string, ids textIDs) (*table, error) {
	t, n := s.Text.Context, ids.len()
	rows := (n - 1) / t
	if n < 2 || rows < 1 {
		return nil, blame("context", fmt.Errorf("%w: the %s part of %s has %d characters, but a window of %d and its target need %d: shorten the context or change the split",
			ErrTooFew, part, s.Path, n, t, t+1))
	}
	input := ids.column(t)
	target := input
	target.field.Name = "target"
	target.offset = ids.width
	return &table{rows: rows, columns: []column{input, target}}, nil
}

// textInputs reads the windows of a text, in the vocabulary of training. A
// shorter last window has a table of its own.
func textInputs(ctx context.Context, s Spec, info *Info, path string) ([]*table, error) {
	text, err := textAt(s, path)
	if err != nil {
		return nil, err
	}
	if info.Vocab == nil {
		return nil, fmt.Errorf("%w: the model was not trained on text: use the source that it was trained on", ErrSpec)
	}
	ids, _, err := text.encode(ctx, info.Vocab)
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
		ts = append(ts, &table{rows: rows, columns: []column{ids.slice(0, rows*t).column(t)}})
	}
	if rest := n % t; rest > 0 {
		ts = append(ts, &table{rows: 1, columns: []column{ids.slice(rows*t, n).column(rest)}})
	}
	return ts, nil
}
