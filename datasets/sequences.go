package datasets

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/shape"
)

// sequences are the samples of a table that have different lengths. A sample is padded to
// the least bucket that has room for it.
type sequences struct {
	of      rowSource
	buckets []int      // positions, from the fewest
	input   shape.Meta // of the longest sample; its first axis counts positions
	target  shape.Meta // of the longest sample; without an element type: there are none
	longest []Field    // of samples in the largest bucket
	packed  bool       // samples have several sequences, and a field of positions; of is *chatRows
	later   bool       // lengths are not known before the samples are read
}

// rowSource has the samples of sequences.
type rowSource interface {
	rows() int
	length(row int) int // positions, from 1 to the largest bucket
	// write writes a sample, with as many positions as it has. target is nil without
	// targets.
	write(s Sample, input, target []byte) error
	// hash writes all that decides the samples in buckets.
	hash(ctx context.Context, buckets []int, w io.Writer) error
	bytes() int64 // that they take in memory
}

// counted is the number of the positions of a sample whose targets count.
func (s *sequences) counted(row int) int {
	if r, ok := s.of.(*chatRows); ok {
		return r.counted(row)
	}
	return s.of.length(row)
}

// targetOf is the metadata of the target of a sample of so many positions.
func (s *sequences) targetOf(positions int) shape.Meta {
	if PerPosition(s.target) {
		return Sized(s.target, positions)
	}
	return s.target
}

// fields are those of samples of so many positions.
func (s *sequences) fields(positions int) []Field {
	fields := []Field{{"input", Sized(s.input, positions)}, lengthField}
	if s.packed {
		fields = append(fields, Field{"position", shape.I32(positions)})
	}
	if s.target.DType != shape.Invalid {
		fields = append(fields, Field{"target", s.targetOf(positions)})
	}
	return fields
}

// write writes a sample into place j of dst, which has the fields of a bucket. Row -1 is an
// empty sample.
func (s *sequences) write(x Sample, j int, fields []Field, dst [][]byte) error {
	length := 0
	if x.Index >= 0 {
		length = s.of.length(x.Index)
	}
	shape.View[int32](dst[1])[j] = int32(length)
	positions := fields[0].Meta.Shape[0]
	size := int(fields[0].Meta.Bytes())
	input, target := dst[0][j*size:][:size], []byte(nil)
	n := size / positions * length
	clear(input[n:])
	input = input[:n:n]
	if s.packed {
		s.of.(*chatRows).writePositions(x.Index, shape.View[int32](dst[2])[j*positions:][:positions])
	}
	if last := len(fields) - 1; fields[last].Name == "target" {
		size := int(fields[last].Meta.Bytes())
		target, n = dst[last][j*size:][:size], size
		if length == 0 {
			n = 0
		} else if PerPosition(s.target) {
			n = size / positions * length
		}
		pad(s.target.DType, target[n:])
		target = target[:n:n]
	}
	if length == 0 {
		return nil
	}
	return s.of.write(x, input, target)
}

// mostBuckets bounds the number of buckets: each is planned and compiled.
const mostBuckets = 32

// bucketNames name the orders of buckets: as many as there can be.
var bucketNames = func() (names [mostBuckets]string) {
	for i := range names {
		names[i] = fmt.Sprint("bucket ", i)
	}
	return names
}()

// checkBuckets refuses buckets that samples cannot be padded to.
func checkBuckets(buckets []int) error {
	switch {
	case len(buckets) == 0 || len(buckets) > mostBuckets:
		return blame("buckets", fmt.Errorf("%w: there are %d buckets: give 1 to %d", ErrSpec, len(buckets), mostBuckets))
	case buckets[0] < 1 || !slices.IsSorted(buckets) || len(slices.Compact(slices.Clone(buckets))) < len(buckets):
		return blame("buckets", fmt.Errorf("%w: buckets are %v: give numbers of positions, the fewest first", ErrSpec, buckets))
	}
	return nil
}

// PowerBuckets are 16, 32, 64 and so on, up to a number of positions.
func PowerBuckets(longest int) (buckets []int) {
	const least = 16
	for size := least; size < longest; size *= 2 {
		buckets = append(buckets, size)
	}
	return append(buckets, longest)
}

// bucketOf is the index of the least bucket with room for a length.
func bucketOf(buckets []int, length int) int {
	for i, size := range buckets {
		if length <= size {
			return i
		}
	}
	panic(fmt.Sprintf("BUG: a sample of %d positions is in no bucket of %v", length, buckets))
}

// PerPosition reports whether a target of samples with different lengths has an answer for
// each position: its first axis counts them.
func PerPosition(target shape.Meta) bool {
	rank := target.Shape.Rank()
	return rank > 1 || rank == 1 && target.DType == shape.Int32
}

// Sized is the metadata of a sample of so many positions.
func Sized(m shape.Meta, positions int) shape.Meta {
	m.Shape = slices.Clone(m.Shape)
	m.Shape[0] = positions
	return m
}

// Padding is the class that stands in the targets of padding.
const Padding = -1

// pad writes the targets of padding.
func pad(t shape.DType, b []byte) {
	clear(b)
	if t == shape.Int32 {
		ids := shape.View[int32](b)
		for i := range ids {
			ids[i] = Padding
		}
	}
}

// IsPadding reports whether a position of samples in memory is padding: the token
// [Padding], or numbers that are all NaN. m is the metadata of a sample.
func IsPadding(m shape.Meta, position []byte) bool {
	if m.DType == shape.Int32 {
		return shape.View[int32](position)[0] == Padding
	}
	for _, v := range shape.View[float32](position) {
		if v == v {
			return false
		}
	}
	return true
}

// PadInputs writes, behind the positions of samples of a batch, what [IsPadding] finds.
// input and lengths are their fields, m is the metadata of a sample of the batch.
func PadInputs(m shape.Meta, input, lengths []byte) {
	size := int(m.Bytes())
	for i, n := range shape.View[int32](lengths) {
		rest := input[i*size:][:size][size/m.Shape[0]*int(n):]
		if m.DType == shape.Int32 {
			pad(m.DType, rest)
			continue
		}
		for k := range shape.View[float32](rest) {
			shape.View[float32](rest)[k] = float32(math.NaN())
		}
	}
}

// givenRows are samples that a function gives anew each time they are read.
type givenRows struct {
	given func(i int) []byte // the elements of a sample
	n     int
	per   int // bytes of a position
}

func (r *givenRows) rows() int { return r.n }

func (r *givenRows) bytes() int64 { return 0 }

func (r *givenRows) length(row int) int { return len(r.given(row)) / r.per }

func (r *givenRows) write(s Sample, input, _ []byte) error {
	copy(input, r.given(s.Index))
	return nil
}

func (r *givenRows) hash(context.Context, []int, io.Writer) error {
	panic("BUG: samples to answer have no fingerprint")
}

// GivenSequences are n samples to predict from, as info describes those of training. given
// gives the elements of each when it is read: of 1 position up to those of the largest
// bucket.
func GivenSequences(info *Info, n int, given func(i int) []byte) *Part {
	m := info.Inputs[0].Meta
	rows := &givenRows{given: given, n: n, per: int(m.Bytes()) / m.Shape[0]}
	return &Part{table: sequenceTable(&sequences{of: rows, buckets: info.Buckets, input: m, later: true}), count: n, ordered: true}
}
