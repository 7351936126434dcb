package datasets

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
)

// Dataset is opened data. Train and Val share its memory.
type Dataset struct {
	Name  string // the source, with the path where it has one
	Train *Part
	Val   *Part // nil if every sample is for training
	Info  Info
}

// Field describes one tensor of a sample. Meta has no batch dimension.
type Field struct {
	Name string
	Meta shape.Meta
}

// Info is what is known of a dataset without its samples. It encodes as JSON,
// and OpenInputs needs nothing else of the training data.
type Info struct {
	Inputs []Field
	// Target is i32[] (a class), i32[T] (a class per position) or f32[...]
	// (numbers to predict).
	Target     Field
	Classes    int      // of an i32 target; 0 otherwise
	ClassNames []string // by class; nil if they have none
	// Tokens is how many distinct ids an i32 input may hold; 0 for f32 inputs.
	Tokens   int
	Vocab    *Vocabulary `json:",omitempty"` // of text
	Features []string    `json:",omitempty"` // names of a csv's feature columns
	Scaling  *Scaling    `json:",omitempty"` // of standardised features
	// TargetScaling is of standardised targets: a model's answers are to be
	// scaled back by it.
	TargetScaling *Scaling `json:",omitempty"`
	// Fingerprint is the SHA-256, in hex, of the decoded samples and of the
	// options that choose and order them. Equal fingerprints: training reads
	// the same samples in the same order.
	Fingerprint string
}

// table is decoded samples: columns of equally many rows, one per field.
type table struct {
	rows    int
	columns []column
}

// column holds one field of every sample. Sample i is the size bytes at
// offset+i*stride of data; rows may overlap, as windows over a text do.
type column struct {
	field  Field
	data   []byte
	offset int
	stride int
	size   int
	// scale, if not nil, turns each byte into a float32: pixels stay bytes
	// until they are read.
	scale *[256]float32
}

// newColumn is a column of consecutive samples as they are in data.
func newColumn(f Field, data []byte) column {
	n := int(f.Meta.Bytes())
	return column{field: f, data: data, stride: n, size: n}
}

// pixelColumn is a column of bytes that read as float32 through scale.
func pixelColumn(f Field, pixels []byte, scale *[256]float32) column {
	n := f.Meta.Elems()
	return column{field: f, data: pixels, stride: n, size: n, scale: scale}
}

// fill copies sample i to dst, which has the field's size.
func (c *column) fill(i int, dst []byte) {
	at := c.offset + i*c.stride
	src := c.data[at : at+c.size]
	if c.scale == nil {
		copy(dst, src)
		return
	}
	out := shape.View[float32](dst)
	for j, v := range src {
		out[j] = c.scale[v]
	}
}

// splitRandomly makes a training and a validation part of t: which sample goes
// where depends on the seed and on how many there are, nothing else.
func splitRandomly(t *table, s Spec, fraction float64) (train, val *Part, err error) {
	n := trainCount(t.rows, fraction)
	if n == 0 || (fraction < 1 && n == t.rows) {
		return nil, nil, blame("split", fmt.Errorf("%w: %d cannot be split by %v: add samples or use split 1", ErrTooFew, t.rows, fraction))
	}
	train = &Part{table: t, count: n}
	if n < t.rows {
		order := rng.NewPermutation(t.rows, rng.Named(s.Seed, "split"))
		train.split, train.isSplit = order, true
		val = &Part{table: t, split: order, isSplit: true, first: n, count: t.rows - n}
	}
	train.shuffleBy(s)
	return train, val, nil
}

// trainCount rounds down, except that 1 means all.
func trainCount(rows int, fraction float64) int {
	return min(rows, int(float64(rows)*fraction))
}

// fingerprint hashes the options that matter to s and the columns of each
// table.
func fingerprint(s Spec, options any, tables ...*table) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s split %v seed %d keep %v %+v\n", s.Source, s.Split, s.Seed, s.KeepOrder, options)
	for _, t := range tables {
		fmt.Fprintf(h, "%d rows\n", t.rows)
		for i := range t.columns {
			t.columns[i].hash(h)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (c *column) hash(w io.Writer) {
	fmt.Fprintf(w, "%s %v %d %d %d\n", c.field.Name, c.field.Meta, c.offset, c.stride, len(c.data))
	if c.scale != nil {
		w.Write(shape.Bytes(c.scale[:]))
	}
	w.Write(c.data)
}
