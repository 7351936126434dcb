package datasets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/berth-ml/berth/datasets/files"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// array is a dense array of a file. Its header was read; the elements,
// row-major, come next.
type array struct {
	dtype     safetensors.DType
	shape     shape.Shape
	bigEndian bool
	in        *files.Stream
}

func (a *array) Close() error { return a.in.Close() }

// memory is the bytes that the array takes once it is read: four for each
// element, or fewer if those of the file are narrower.
func (a *array) memory() int64 { return int64(a.shape.Elems()) * int64(min(a.dtype.Size(), 4)) }

// checkSize refuses an array whose elements cannot be what follows its header.
func (a *array) checkSize() error {
	want := int64(a.shape.Elems()) * int64(a.dtype.Size())
	switch {
	case a.in.Packed && want > a.in.Left:
		return files.ErrUnpacksTooFar
	case !a.in.Packed && want != a.in.Left:
		return fmt.Errorf("%w: the header gives %d bytes of elements, but %d follow it: copy or save the file again", ErrFormat, want, a.in.Left)
	}
	return nil
}

// checkSamples refuses an array without samples, its first dimension.
func (a *array) checkSamples() error {
	if a.shape.Rank() == 0 || a.shape.Elems() == 0 {
		return fmt.Errorf("%w: an array of shape %v holds no samples: save one with a first dimension of samples", ErrFormat, a.shape)
	}
	return nil
}

// next reads the next elements into dst, little-endian.
func (a *array) next(dst []byte) error {
	_, err := io.ReadFull(a.in, dst)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: the elements end before those that the header gives: copy or save the file again", ErrFormat)
	}
	if size := a.dtype.Size(); a.bigEndian {
		for at := 0; at < len(dst); at += size {
			slices.Reverse(dst[at : at+size])
		}
	}
	return err
}

// end checks that no byte follows the last element. It makes a packed file check
// its sum.
func (a *array) end() error {
	n, err := a.in.Read(make([]byte, 1))
	if n > 0 {
		return fmt.Errorf("%w: more bytes follow than the elements that the header gives: copy or save the file again", ErrFormat)
	}
	if err == io.EOF {
		err = nil
	}
	return err
}

// stored reads all elements as they are in the file.
func (a *array) stored(ctx context.Context) ([]byte, error) {
	data := make([]byte, a.shape.Elems()*a.dtype.Size())
	err := inPieces(ctx, len(data), pieceBytes, func(from, to int) error { return a.next(data[from:to]) })
	if err == nil {
		err = a.end()
	}
	return data, err
}

// column reads the array as a column of float32 or int32 samples. Of int32, ids
// is one more than the largest.
func (a *array) column(ctx context.Context, name string, float bool) (c column, ids int, err error) {
	if err := a.checkSamples(); err != nil {
		return c, 0, err
	}
	meta := shape.Meta{DType: shape.Int32, Shape: a.shape[1:].Clone()}
	var data []byte
	if float {
		meta.DType = shape.Float32
		perSample := meta.Elems()
		data, err = decode(ctx, a, safetensors.DecodeFloat32, func(first int, values []float32) error { return finite(first, values, perSample) })
	} else {
		data, err = decode(ctx, a, safetensors.DecodeInt32, func(first int, values []int32) (err error) {
			ids, err = countIDs(name, first, values, ids)
			return err
		})
	}
	if errors.Is(err, safetensors.ErrConvert) {
		err = fmt.Errorf("%w: %w%s", ErrFormat, err, convertAdvice(err, name, float))
	}
	if err != nil {
		return c, 0, err
	}
	c = newColumn(Field{name, meta}, data)
	if a.dtype.Size() < 4 {
		c = storedColumn(Field{name, meta}, data, a.dtype)
	}
	return c, ids, nil
}

// convertAdvice says what to do about an element that cannot be converted.
func convertAdvice(err error, field string, float bool) string {
	var element *safetensors.ElementError
	switch {
	case !errors.As(err, &element):
		return ""
	case float:
		return ": scale the numbers, or take the sample out"
	}
	return ": " + idAdvice(field)
}

// decode reads all elements, which check sees as they read, with the number of
// those before them. The result keeps elements of fewer than four bytes as they
// are in the file.
func decode[T float32 | int32](ctx context.Context, a *array, read func(safetensors.DType, []byte, []T) error, check func(first int, values []T) error) ([]byte, error) {
	n, size := a.shape.Elems(), a.dtype.Size()
	piece := min(n, pieceBytes/size)
	raw, wide := make([]byte, piece*size), make([]T, piece)
	var values []T
	var data []byte
	if size < 4 {
		data = make([]byte, n*size)
	} else {
		values = make([]T, n)
		data = shape.Bytes(values)
	}
	err := inPieces(ctx, n, piece, func(from, to int) error {
		raw, wide := raw[:(to-from)*size], wide[:to-from]
		if size < 4 {
			raw = data[from*size : to*size]
		} else {
			wide = values[from:to]
		}
		if err := a.next(raw); err != nil {
			return err
		}
		if err := read(a.dtype, raw, wide); err != nil {
			return safetensors.Later(err, from)
		}
		return check(from, wide)
	})
	if err == nil {
		err = a.end()
	}
	return data, err
}

// finite refuses NaN and infinities: training on one ends in NaN weights. first
// is the number of elements before values.
func finite(first int, values []float32, perSample int) error {
	for i, v := range values {
		if v-v != 0 { // NaN, for NaN and for both infinities
			return fmt.Errorf("%w: element %d of sample %d is %v: take the sample out, or replace the number", ErrFormat, (first+i)%perSample, (first+i)/perSample, v)
		}
	}
	return nil
}

// unit refuses targets outside 0 to 1.
func unit(ctx context.Context, c *column) error {
	first, perSample := 0, c.field.Meta.Elems()
	return c.elements(ctx, func(part []byte) error {
		values := shape.View[float32](part)
		for i, v := range values {
			if !(v >= 0 && v <= 1) {
				return fmt.Errorf("element %d of sample %d: %s", (first+i)%perSample, (first+i)/perSample, notUnit(v))
			}
		}
		first += len(values)
		return nil
	})
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

// countIDs is one more than the largest of values, or count if that is more.
// first is the number of elements before values.
func countIDs(field string, first int, values []int32, count int) (int, error) {
	for i, v := range values {
		if v < 0 || v >= mostIDs {
			return 0, fmt.Errorf("%w: element %d is %d, but ids begin at 0 and end at %d: %s", ErrFormat, first+i, v, mostIDs-1, idAdvice(field))
		}
		count = max(count, int(v)+1)
	}
	return count, nil
}
