package datasets

import (
	"fmt"
	"strconv"

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
func imageTable(f Field, pixels []byte, scale *[256]float32, labels []int32) *table {
	t := &table{rows: len(pixels) / f.Meta.Elems(), columns: []column{pixelColumn(f, pixels, scale)}}
	if labels != nil {
		t.columns = append(t.columns, newColumn(Field{"target", shape.I32()}, shape.Bytes(labels)))
	}
	return t
}

// imageDataset is the dataset of labelled images. val holds the validation
// samples; if it is nil, t is split.
func imageDataset(name string, s Spec, t, val *table) (*Dataset, error) {
	ds := &Dataset{Name: name}
	tables := []*table{t}
	if val == nil {
		var err error
		if ds.Train, ds.Val, err = splitRandomly(t, s, s.trainFraction(fingerprint(s, s.Images, t), 0.8)); err != nil {
			return nil, err
		}
	} else {
		if have, want := val.columns[0].field.Meta, t.columns[0].field.Meta; !have.Equal(want) {
			return nil, fmt.Errorf("%w: %s: the t10k images are %v, the train images %v", ErrFormat, name, have, want)
		}
		ds.Train, ds.Val = &Part{table: t, count: t.rows}, &Part{table: val, count: val.rows}
		shuffle(ds.Train, s)
		tables = append(tables, val)
	}
	names := classNumbers(tables)
	ds.Info = Info{Inputs: []Field{t.columns[0].field}, Target: t.columns[1].field,
		Classes: len(names), ClassNames: names, Fingerprint: fingerprint(s, s.Images, tables...)}
	return ds, nil
}

// classNumbers lists the numbers 0, 1, … up to the largest label.
func classNumbers(tables []*table) []string {
	classes := 0
	for _, t := range tables {
		for _, v := range shape.View[int32](t.columns[1].data) {
			classes = max(classes, int(v)+1)
		}
	}
	names := make([]string, classes)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}
