package datasets

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/shape"
)

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
	n := trainCount(ids.len(), fraction)
	val := ids.slice(n, ids.len())
	if fraction == 1 {
		return textDataset(ctx, s, t, sum, lengthen, ids, nil)
	}
	return textDataset(ctx, s, t, sum, lengthen, ids.slice(0, n), &val)
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

// textDataset makes the dataset of the ids of two parts, which sum is of. Without
// val there is one part. do says what to do about a part that is too short.
func textDataset(ctx context.Context, s Spec, t tokenizer.Tokenizer, sum, do string, ids textIDs, val *textIDs) (*Dataset, error) {
	if ids.len() == 0 && (val == nil || val.len() == 0) {
		return nil, fmt.Errorf("%w: %s is empty: name a text to train on", ErrTooFew, s.textFiles())
	}
	train, err := windows(s, "training", do, ids)
	if err != nil {
		return nil, err
	}
	ds := &Dataset{Name: s.textName(), Train: &Part{table: train, count: train.rows}}
	shuffle(ds.Train, s)
	tables := []*table{train}
	if val != nil {
		table, err := windows(s, "validation", do, *val)
		if err != nil {
			return nil, err
		}
		ds.Val = &Part{table: table, count: table.rows}
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
		return nil, blame("context", fmt.Errorf("%w: the %s part of %s has %d tokens, but a window of %d and its target need %d: %s",
			ErrTooFew, part, s.textFiles(), n, t, t+1, do))
	}
	input := ids.column(t)
	target := input
	target.field.Name = "target"
	target.offset = ids.width
	return &table{rows: rows, columns: []column{input, target}, mapping: ids.mapping}, nil
}
