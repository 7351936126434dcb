package datasets

import (
	"context"
	"io"

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
	if len(dst) > 2 {
		size := int(fields[2].Meta.Bytes())
		target, n = dst[2][j*size:][:size], size
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
