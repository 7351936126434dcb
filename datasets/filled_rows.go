package datasets

import (
	"context"
	"fmt"
	"io"

	"github.com/berth-ml/berth/engine/shape"
)

// filledRows are samples of different lengths that a function writes.
type filledRows struct {
	f       *Filled
	lengths []int32
}

// sequenceTable is the samples as a table, with or without targets.
func (f *Filled) sequenceTable(targets bool) (t *table, err error) {
	var x Sample
	defer f.guard(&x, &err)
	rows := &filledRows{f, make([]int32, f.Len)}
	for x.Index = range rows.lengths {
		n := f.Length(x.Index)
		if n < 1 || n > f.Input.Shape[0] {
			return nil, fmt.Errorf("%w: %s, sample %d: its length is %d: it must be from 1 to %d, the first axis of Input", ErrFill, f.Name, x.Index, n, f.Input.Shape[0])
		}
		rows.lengths[x.Index] = int32(n)
	}
	s := &sequences{of: rows, buckets: f.Buckets, input: f.Input}
	if targets {
		s.target = f.target().Meta
	}
	t = sequenceTable(s)
	t.filled = f
	return t, nil
}

func (r *filledRows) rows() int { return len(r.lengths) }

func (r *filledRows) length(row int) int { return int(r.lengths[row]) }

func (r *filledRows) write(s Sample, input, target []byte) error {
	return r.f.write(s, input, target, false) // no loss of sequences needs targets from 0 to 1
}

func (r *filledRows) hash(_ context.Context, buckets []int, w io.Writer) error {
	fmt.Fprintf(w, "samples in %v\n", buckets)
	_, err := w.Write(shape.Bytes(r.lengths))
	return err
}
