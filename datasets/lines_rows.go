package datasets

import (
	"context"
	"fmt"
	"io"

	"github.com/berth-ml/berth/engine/shape"
)

// lineRows are the samples of lines, one after the other.
type lineRows struct {
	ids    textIDs
	begins []int64 // position in ids of each sample's first token, and of the end of the last one
	labels []int32 // class of each sample; nil: the targets are the next tokens
}

func (r *lineRows) rows() int { return len(r.begins) - 1 }

func (r *lineRows) length(row int) int { return int(r.begins[row+1] - r.begins[row]) }

// write writes a sample, whose targets are one token later.
func (r *lineRows) write(s Sample, input, target []byte) error {
	from := int(r.begins[s.Index])
	r.tokens(shape.View[int32](input), from)
	switch {
	case target == nil:
	case r.labels == nil:
		r.tokens(shape.View[int32](target), from+1)
	default:
		shape.View[int32](target)[0] = r.labels[s.Index]
	}
	return nil
}

// tokens writes the ids from a position on.
func (r *lineRows) tokens(dst []int32, from int) {
	for i := range dst {
		dst[i] = r.ids.at(from + i)
	}
}

func (r *lineRows) hash(ctx context.Context, buckets []int, w io.Writer) error {
	fmt.Fprintf(w, "sequences in %v, labels %v\n", buckets, r.labels != nil)
	w.Write(shape.Bytes(r.begins))
	w.Write(shape.Bytes(r.labels))
	return inPieces(ctx, len(r.ids.data), pieceBytes, func(from, to int) error {
		_, err := w.Write(r.ids.data[from:to])
		return err
	})
}
