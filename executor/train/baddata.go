package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/shape"
)

// badNumber is a number of the data that is not finite.
type badNumber struct {
	field   string // of a sample, as the data names it
	element int    // of the sample
	row     int    // of the batch
	sample  int    // of the data, from 0
	value   float32
}

// String says where the number is, and what to do.
func (x badNumber) String() string {
	return fmt.Sprintf("the data has %v: element %d of the %s of sample %d (row %d of the batch): correct the sample", x.value, x.element, x.field, x.sample, x.row)
}

// badNumberOf looks for the first number that is not finite in the memory of a batch of a
// part, a slice for each field. lengths says that its samples have different lengths.
func badNumberOf(part *datasets.Part, lengths bool, b datasets.Batch, memory [][]byte) (bad badNumber, found bool) {
	for i, field := range part.Shapes(b.Bucket) {
		if field.Meta.DType != shape.Float32 {
			continue
		}
		size := int(field.Meta.Bytes())
		for row := range b.Samples {
			held := memory[i][row*size:][:size]
			if lengths && (i == 0 || datasets.PerPosition(field.Meta)) { // padding does not count
				positions := int(shape.View[int32](memory[1])[row])
				held = held[:size/field.Meta.Shape[0]*positions]
			}
			at := slices.IndexFunc(shape.View[float32](held), func(x float32) bool { return x-x != 0 }) // NaN or infinite
			if at >= 0 {
				return badNumber{field.Name, at, row, part.SampleOf(b.At, row), shape.View[float32](held)[at]}, true
			}
		}
	}
	return bad, false
}

// badTraining looks for a number that is not finite in a batch that a step has failed on.
func (a *attempt) badTraining(b datasets.Batch) (bad badNumber, found bool) {
	return badNumberOf(a.part, a.session.Spec.Lengths, b, a.feed.Memory(b))
}

// badValidation looks for a number that is not finite in the validation part, which it
// reads anew. Where that fails, or ctx ends, there is none.
func (a *attempt) badValidation(ctx context.Context) (bad badNumber, found bool) {
	n := a.session.Sizes.Batch
	part := a.val.InBatches(n)
	memory := part.Alloc(n)
	for at := (datasets.Cursor{}); at.Epoch == 0 && ctx.Err() == nil; {
		samples, err := part.Read(at, n, memory)
		if err != nil {
			return bad, false
		}
		b := datasets.Batch{Samples: samples - part.Empty(at, samples), Bucket: part.Bucket(at), At: at}
		if bad, found = badNumberOf(part, a.session.Spec.Lengths, b, memory); found {
			return bad, true
		}
		at = part.Next(at, samples)
	}
	return bad, false
}
