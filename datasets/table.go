package datasets

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"reflect"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// Field describes one tensor of a sample. Meta has no batch dimension.
type Field struct {
	Name string
	Meta shape.Meta
}

// lengthField is the number of a sample's positions that are no padding.
var lengthField = Field{"length", shape.I32()}

// table holds decoded samples: a column for each field, all with equally many
// rows.
type table struct {
	rows    int
	columns []column
	mapping *osfile.Mapping // the file whose contents the columns' data is; nil: the data is in memory
	// The samples are in the columns' data, unless one of these has them. The columns then
	// have no data.
	filled    *Filled    // a function of the program's own writes each sample
	sequences *sequences // the samples have different lengths
	augment   *augmenter // changes the samples that vary; nil: none does
	unit      bool       // with filled: refuse targets below 0 or above 1

	texts *rowTexts // of table columns that are kept beside the samples, as texts; nil: none were asked for
}

// sequenceTable is samples of different lengths as a table. Its columns have no data.
func sequenceTable(s *sequences) *table {
	t := &table{rows: s.of.rows(), sequences: s}
	s.longest = s.fields(s.buckets[len(s.buckets)-1])
	for _, f := range s.longest {
		t.columns = append(t.columns, newColumn(f, nil))
	}
	return t
}

// join takes the memory of equal samples in place of its own.
func (t *table) join(other *table) {
	if t == other || t.mapping != nil || other.mapping != nil {
		return
	}
	for i := range t.columns {
		for _, c := range other.columns {
			if own := &t.columns[i].data; len(c.data) > 0 && len(*own) == len(c.data) && &(*own)[0] != &c.data[0] && bytes.Equal(*own, c.data) {
				*own = c.data
			}
		}
	}
	if s, x := t.sequences, other.sequences; s != nil && x != nil && s.of != x.of && reflect.DeepEqual(s.of, x.of) {
		s.of = x.of
	}
}

// column holds one field of every sample. Sample i is the size bytes at
// offset+i*stride of data. Samples overlap where stride is less than size, as the windows
// of a text do. At most one of scale, stored and cells is set: each says how samples are
// kept in data. Without them data holds the field's elements.
type column struct {
	field  Field
	data   []byte
	offset int
	stride int
	size   int
	// scale: data holds pixels, a byte each, of one channel after the other. scale[c][b] is the number that byte
	// b of channel c stands for.
	scale [][256]float32
	// stored: data holds little-endian elements of this type, which is narrower than the
	// field's, such as U16 for an i32 field. All of them were checked.
	stored safetensors.DType
	// cells: data holds rows of a table, four bytes for each of its columns.
	cells *cells
}

// cells turns rows of a table into features. A text cell, such as the name of a class, may
// become several features.
type cells struct {
	columns *columns.Fitted
	scaling *Scaling // of the features; nil: they are not scaled
}

// cellColumn makes a column of rows of cells.
func cellColumn(data []int32, of *cells) column {
	n := 4 * len(of.columns.Columns)
	return column{field: Field{"input", shape.F32(of.columns.Features())}, data: shape.Bytes(data), stride: n, size: n, cells: of}
}

// expand turns a row of cells into features.
func (c *cells) expand(row []int32, dst []float32) {
	c.columns.Expand(row, dst)
	if c.scaling != nil {
		c.scaling.Apply(dst)
	}
}

// newColumn makes a column of consecutive samples. data holds their elements.
func newColumn(f Field, data []byte) column {
	n := int(f.Meta.Bytes())
	return column{field: f, data: data, stride: n, size: n}
}

// pixelColumn makes a column of bytes that read as float32 through scale.
func pixelColumn(f Field, pixels []byte, scale [][256]float32) column {
	n := f.Meta.Elems()
	return column{field: f, data: pixels, stride: n, size: n, scale: scale}
}

// storedColumn makes a column of narrower elements, which can be decoded.
func storedColumn(f Field, data []byte, stored safetensors.DType) column {
	n := f.Meta.Elems() * stored.Size()
	return column{field: f, data: data, stride: n, size: n, stored: stored}
}

// fill copies sample i to dst, which has the field's size.
func (c *column) fill(i int, dst []byte) {
	at := c.offset + i*c.stride
	src := c.data[at : at+c.size]
	switch {
	case c.scale != nil:
		out := shape.View[float32](dst)
		plane := len(src) / len(c.scale)
		for channel := range c.scale {
			lookUp(out[channel*plane:][:plane], src[channel*plane:][:plane], &c.scale[channel])
		}
	case c.stored != "":
		c.decode(dst, src)
	case c.cells != nil:
		c.cells.expand(shape.View[int32](src), shape.View[float32](dst))
	default:
		copy(dst, src)
	}
}

// decode turns elements as they are stored into the field's.
func (c *column) decode(dst, src []byte) {
	var err error
	if c.field.Meta.DType == shape.Float32 {
		err = safetensors.DecodeFloat32(c.stored, src, shape.View[float32](dst))
	} else {
		err = safetensors.DecodeInt32(c.stored, src, shape.View[int32](dst))
	}
	if err != nil {
		panic(fmt.Sprintf("BUG: stored elements: %v", err))
	}
}

// elements calls f with all of data, piece by piece and in order, until ctx is done. Stored
// elements are widened to the field's first; pixels and cells are passed as data has them.
func (c *column) elements(ctx context.Context, f func(part []byte) error) error {
	if c.stored == "" {
		return inPieces(ctx, len(c.data), pieceBytes, func(from, to int) error { return f(c.data[from:to]) })
	}
	const wide = 4 // bytes of the field's elements
	size := c.stored.Size()
	buf := shape.Bytes(make([]int32, min(len(c.data)/size, pieceBytes/wide)))
	return inPieces(ctx, len(c.data)/size, pieceBytes/wide, func(from, to int) error {
		part := buf[:(to-from)*wide]
		c.decode(part, c.data[from*size:to*size])
		return f(part)
	})
}

// hash writes everything that decides the column's samples. Stored elements count
// as those that they read as.
func (c *column) hash(ctx context.Context, w io.Writer) error {
	wider := 1
	if c.stored != "" {
		wider = 4 / c.stored.Size()
	}
	fmt.Fprintf(w, "%s %v %d %d %d\n", c.field.Name, c.field.Meta, c.offset*wider, c.stride*wider, len(c.data)*wider)
	for channel := range c.scale {
		w.Write(shape.Bytes(c.scale[channel][:]))
	}
	return c.elements(ctx, func(part []byte) error {
		_, err := w.Write(part)
		return err
	})
}
