package datasets

import (
	"fmt"
	"io"

	"github.com/berth-ml/berth/engine/shape"
)

// Field describes one tensor of a sample. Meta has no batch dimension.
type Field struct {
	Name string
	Meta shape.Meta
}

// table holds decoded samples: a column for each field, all with equally many
// rows.
type table struct {
	rows    int
	columns []column
}

// column holds one field of every sample. Sample i is the size bytes at
// offset+i*stride of data; the windows of a text overlap.
type column struct {
	field  Field
	data   []byte
	offset int
	stride int
	size   int
	// scale turns each byte of a sample into a float32, so that pixels stay
	// bytes until they are read. nil: data holds ids, or the field's elements.
	scale *[256]float32
	// narrow is the bytes of an id in data, 1 or 2, if it reads as an int32. 0:
	// data holds the field's elements.
	narrow int
}

// newColumn makes a column of consecutive samples. data holds their elements.
func newColumn(f Field, data []byte) column {
	n := int(f.Meta.Bytes())
	return column{field: f, data: data, stride: n, size: n}
}

// pixelColumn makes a column of bytes that read as float32 through scale.
func pixelColumn(f Field, pixels []byte, scale *[256]float32) column {
	n := f.Meta.Elems()
	return column{field: f, data: pixels, stride: n, size: n, scale: scale}
}

// fill copies sample i to dst, which has the field's size.
func (c *column) fill(i int, dst []byte) {
	at := c.offset + i*c.stride
	src := c.data[at : at+c.size]
	switch {
	case c.scale != nil:
		out := shape.View[float32](dst)
		for j, v := range src {
			out[j] = c.scale[v]
		}
	case c.narrow != 0:
		widen(shape.View[int32](dst), src, c.narrow)
	default:
		copy(dst, src)
	}
}

// hash writes everything that decides the column's samples. Narrow ids count as
// the int32 that they read as.
func (c *column) hash(w io.Writer) {
	wider := 1
	if c.narrow != 0 {
		wider = 4 / c.narrow
	}
	fmt.Fprintf(w, "%s %v %d %d %d\n", c.field.Name, c.field.Meta, c.offset*wider, c.stride*wider, len(c.data)*wider)
	if c.scale != nil {
		w.Write(shape.Bytes(c.scale[:]))
	}
	if c.narrow == 0 {
		w.Write(c.data)
		return
	}
	chunk := make([]int32, 16<<10)
	for rest := c.data; len(rest) > 0; {
		n := min(len(rest)/c.narrow, len(chunk))
		widen(chunk[:n], rest, c.narrow)
		w.Write(shape.Bytes(chunk[:n]))
		rest = rest[n*c.narrow:]
	}
}
