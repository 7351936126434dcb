package datasets

import (
	"context"
	"io"
)

// givenRows are samples that a function gives anew each time they are read.
type givenRows struct {
	given func(i int) []byte // the elements of a sample
	n     int
	per   int // bytes of a position
}

func (r *givenRows) rows() int { return r.n }

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
