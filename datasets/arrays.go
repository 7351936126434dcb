package datasets

import (
	"fmt"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// array is a dense array of a file. data is row-major and little-endian.
type array struct {
	dtype safetensors.DType
	shape shape.Shape
	data  []byte
}

// column gives the array as a column of float32 or int32 samples, and their
// number. The first dimension is the sample.
func (a *array) column(name string, float bool) (column, int, error) {
	if a.shape.Rank() == 0 || a.shape.Elems() == 0 {
		return column{}, 0, fmt.Errorf("%w: an array of shape %v holds no samples: save one with a first dimension of samples", ErrFormat, a.shape)
	}
	meta := shape.Meta{DType: shape.Int32, Shape: a.shape[1:].Clone()}
	n := a.shape.Elems()
	var data []byte
	var err error
	if float {
		meta.DType = shape.Float32
		values := make([]float32, n)
		if err = safetensors.DecodeFloat32(a.dtype, a.data, values); err == nil {
			err = finite(values, n/a.shape[0])
		}
		data = shape.Bytes(values)
	} else {
		values := make([]int32, n)
		err = safetensors.DecodeInt32(a.dtype, a.data, values)
		data = shape.Bytes(values)
	}
	if err != nil && !float {
		err = fmt.Errorf("%w: %s", err, idAdvice(name))
	}
	if err != nil {
		return column{}, 0, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return newColumn(Field{name, meta}, data), a.shape[0], nil
}

// finite refuses NaN and infinities: training on one ends in NaN weights.
func finite(values []float32, perSample int) error {
	for i, v := range values {
		if v-v != 0 { // NaN, for NaN and for both infinities
			return fmt.Errorf("element %d of sample %d is %v: take the sample out, or replace the number", i%perSample, i/perSample, v)
		}
	}
	return nil
}

// unit refuses targets outside 0 to 1.
func unit(values []float32, perSample int) error {
	for i, v := range values {
		if !(v >= 0 && v <= 1) {
			return fmt.Errorf("element %d of sample %d: %s", i%perSample, i/perSample, notUnit(v))
		}
	}
	return nil
}

// mostIDs bounds ids. A greater one is a quantity or a key, and a model with an
// output or a row for each id below it would be too large.
const mostIDs = 1 << 24

// idAdvice says how the ids of a field, input or target, are numbered.
func idAdvice(field string) string {
	if field == "target" {
		return "whole numbers as target are classes, numbered from 0 without gaps: number them so, or save numbers to predict as floats"
	}
	return "whole numbers as input are ids, numbered from 0 without gaps: number them so, or save features as floats"
}

// idCount is one more than the largest id of an int32 column; 0 for floats.
func idCount(c column) (int, error) {
	if c.field.Meta.DType != shape.Int32 {
		return 0, nil
	}
	count := 0
	for i, v := range shape.View[int32](c.data) {
		if v < 0 || v >= mostIDs {
			return 0, fmt.Errorf("%w: element %d is %d, but ids begin at 0 and end at %d: %s", ErrFormat, i, v, mostIDs-1, idAdvice(c.field.Name))
		}
		count = max(count, int(v)+1)
	}
	return count, nil
}
