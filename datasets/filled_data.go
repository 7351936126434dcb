package datasets

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/shape"
)

// table is the samples as a table, whose columns have no data.
func (f *Filled) table(target bool, unit bool) (*table, error) {
	if f.Length != nil {
		return f.sequenceTable(target)
	}
	t := &table{rows: f.Len, filled: f, unit: unit}
	fields := []Field{{"input", f.Input}}
	if target {
		fields = append(fields, f.target())
	}
	for _, field := range fields {
		t.columns = append(t.columns, newColumn(field, nil))
	}
	return t, nil
}

// openFilled is Open for samples that a function writes.
func openFilled(ctx context.Context, s Spec) (*Dataset, error) {
	f := s.Filled
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.Target.DType == shape.Invalid {
		return nil, fmt.Errorf("%w: %s has no targets to train on or to evaluate with: give Target", ErrSpec, f.Name)
	}
	tables, err := f.tables(s)
	if err != nil {
		return nil, err
	}
	print, err := filledPrint(ctx, s, tables)
	if err != nil {
		return nil, err
	}
	ds := &Dataset{Name: f.Name, Info: Info{
		Inputs: []Field{{"input", f.Input}}, Target: f.target(), Classes: f.Classes, ClassNames: f.Labels, Tokens: f.Tokens, Fingerprint: print,
	}}
	if f.Length != nil {
		ds.Info.Inputs, ds.Info.Buckets = append(ds.Info.Inputs, lengthField), f.Buckets
	}
	if len(tables) > 1 {
		ds.Train, ds.Val = &Part{table: tables[0], count: f.Len}, &Part{table: tables[1], count: f.Val.Len}
		shuffle(ds.Train, s)
	} else if ds.Train, ds.Val, err = splitRandomly(tables[0], s, s.trainFraction(print, 0.8)); err != nil {
		return nil, err
	}
	ds.Train.varies = true
	ds.Train.seed = s.Seed
	return ds, nil
}

// tables are the samples, and those to validate with if they are others.
func (f *Filled) tables(s Spec) ([]*table, error) {
	first, err := f.table(true, s.UnitTarget)
	if err != nil || s.Split > 0 || f.Val == nil {
		return []*table{first}, err
	}
	if err := f.Val.check(); err != nil {
		return nil, fmt.Errorf("validation: %w", err)
	}
	second, err := f.Val.table(true, s.UnitTarget)
	if err != nil {
		return nil, fmt.Errorf("validation: %w", err)
	}
	if !slices.Equal(f.Buckets, f.Val.Buckets) {
		return nil, fmt.Errorf("%w: %s: the buckets of validation samples are %v, those of training samples %v: make them alike", ErrSpec, f.Name, f.Val.Buckets, f.Buckets)
	}
	for i, c := range second.columns {
		if want := first.columns[i].field.Meta; !c.field.Meta.Equal(want) {
			return nil, fmt.Errorf("%w: %s: the %s of a validation sample is %v, that of a training sample %v: make them alike", ErrSpec, f.Name, c.field.Name, c.field.Meta, want)
		}
	}
	return []*table{first, second}, nil
}

// probes is the number of samples of a table that are part of the fingerprint: all
// may be too many to compute.
const probes = 16

// filledPrint is the fingerprint of samples that a function writes: of their
// identity, and of some of them.
func filledPrint(ctx context.Context, s Spec, tables []*table) (string, error) {
	options := []any{s.Filled.Identity}
	for _, t := range tables {
		p := &Part{table: t, count: t.rows}
		dst := p.Alloc(1)
		for i := range min(probes, t.rows) {
			if err := context.Cause(ctx); err != nil {
				return "", err
			}
			at := i * t.rows / min(probes, t.rows)
			if _, err := p.Read(Cursor{Index: at}, 1, dst); err != nil {
				return "", err
			}
			options = append(options, fmt.Sprintf("%x", dst))
		}
	}
	return fingerprint(ctx, s, options, tables...)
}

// filledInputs is the inputs of samples that a function writes.
func filledInputs(_ context.Context, s Spec, _ *Info, _ string) (*table, error) {
	if err := s.Filled.check(); err != nil {
		return nil, err
	}
	return s.Filled.table(false, false)
}
