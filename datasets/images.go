package datasets

import (
	"context"
	"fmt"
	"strconv"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// scale is the table of the values that pixels of 0 to top read as.
func (o ImageOptions) scale(top int) *[256]float32 {
	var t [256]float32
	for i := range t {
		v := float64(i) / float64(top)
		if o.Std != 0 {
			v = (v - o.Mean) / o.Std
		}
		t[i] = float32(v)
	}
	return &t
}

// imageTable is the table of images and, unless labels is nil, their classes.
func imageTable(f Field, pixels []byte, scale *[256]float32, labels []byte) *table {
	t := &table{rows: len(pixels) / f.Meta.Elems(), columns: []column{pixelColumn(f, pixels, scale)}}
	if labels != nil {
		t.columns = append(t.columns, storedColumn(Field{"target", shape.I32()}, labels, safetensors.U8))
	}
	return t
}

// imageDataset is the dataset of labelled images. val holds the validation
// samples; if it is nil, t is split.
func imageDataset(ctx context.Context, name string, s Spec, t, val *table) (*Dataset, error) {
	tables := []*table{t}
	if val != nil {
		tables = append(tables, val)
	}
	print, err := fingerprint(ctx, s, s.Images, tables...)
	if err != nil {
		return nil, err
	}
	names, err := classNumbers(ctx, tables)
	if err != nil {
		return nil, err
	}
	ds := &Dataset{Name: name, Info: Info{Inputs: []Field{t.columns[0].field}, Target: t.columns[1].field,
		Classes: len(names), ClassNames: names, Fingerprint: print}}
	if val == nil {
		ds.Train, ds.Val, err = splitRandomly(t, s, s.trainFraction(print, 0.8))
		return ds, err
	}
	if have, want := val.columns[0].field.Meta, t.columns[0].field.Meta; !have.Equal(want) {
		return nil, fmt.Errorf("%w: %s: the t10k images are %v, the train images %v: use the files of one set", ErrFormat, name, have, want)
	}
	ds.Train, ds.Val = &Part{table: t, count: t.rows}, &Part{table: val, count: val.rows}
	shuffle(ds.Train, s)
	return ds, nil
}

// classNumbers lists the numbers 0, 1, … up to the largest label.
func classNumbers(ctx context.Context, tables []*table) ([]string, error) {
	classes := 0
	for _, t := range tables {
		err := t.columns[1].elements(ctx, func(part []byte) error {
			for _, v := range shape.View[int32](part) {
				classes = max(classes, int(v)+1)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	names := make([]string, classes)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names, nil
}
