package answer

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
)

// A Batch is samples in memory.
type Batch struct {
	Samples int
	rows    []byte // of samples with different lengths: packed, see pack
}

// Check refuses samples that the model does not take. b is the memory of a tensor m of
// [n, …]; it belongs to the batch.
func (m *Model) Check(given shape.Meta, b []byte) (Batch, error) {
	if m.Info.Buckets != nil {
		return m.pack(given, b)
	}
	sample := m.Info.Inputs[0].Meta
	if given.DType != sample.DType || given.Shape.Rank() != sample.Shape.Rank()+1 || given.Shape[0] < 1 || !slices.Equal(given.Shape[1:], sample.Shape) {
		return Batch{}, fmt.Errorf("%w: the samples are %v: give a tensor %v, where n is the number of samples", errs.ErrOptions, given, anyNumber(sample))
	}
	if err := m.Info.CheckTokens(b); err != nil {
		return Batch{}, fmt.Errorf("%w: %w", errs.ErrOptions, err)
	}
	return Batch{given.Shape[0], b}, nil
}

// anyNumber prints the metadata of a tensor of n samples.
func anyNumber(sample shape.Meta) string {
	dims := "[n"
	for _, d := range sample.Shape {
		dims += fmt.Sprintf(",%d", d)
	}
	return sample.DType.String() + dims + "]"
}

// length is the number of positions of sample i, of packed ones.
func (b Batch) length(i int) int {
	return int(shape.View[int32](b.rows[i*len(b.rows)/b.Samples:])[0])
}

// sequence is the positions of sample i, of packed ones.
func (b Batch) sequence(m *Model, i int) []byte {
	size, per := m.packedBytes()
	return b.rows[i*size:][4:][:per*b.length(i)]
}

// packedBytes is the size of a packed sample, and of a position of it.
func (m *Model) packedBytes() (sample, position int) {
	longest := m.Info.Inputs[0].Meta
	n := int(longest.Bytes())
	return 4 + n, n / longest.Shape[0]
}

// pack gives each sample with a length as many bytes: the length, and its positions behind
// it. The rows of the tensor have padding behind their positions: see [datasets.PadInputs].
func (m *Model) pack(given shape.Meta, b []byte) (Batch, error) {
	longest := m.Info.Inputs[0].Meta
	most, fits := longest.Shape[0], given.DType == longest.DType && given.Shape.Rank() == longest.Shape.Rank()+1
	if !fits || given.Shape[0] < 1 || given.Shape[1] < 1 || given.Shape[1] > most || !slices.Equal(given.Shape[2:], longest.Shape[1:]) {
		return Batch{}, fmt.Errorf("%w: the samples are %v, but the model takes sequences of 1 to %d positions: give a tensor of one axis more than %v, with the samples along the first axis, and fill the end of shorter sequences with %s", errs.ErrOptions, given, most, longest, paddingText(longest))
	}
	size, per := m.packedBytes()
	out := make([]byte, given.Shape[0]*size)
	for i := range given.Shape[0] {
		row, to := b[i*given.Shape[1]*per:][:given.Shape[1]*per], out[i*size:]
		n := 0
		for n < given.Shape[1] && !datasets.IsPadding(longest, row[n*per:(n+1)*per]) {
			n++
		}
		for k := n; k < given.Shape[1]; k++ {
			if n == 0 || !datasets.IsPadding(longest, row[k*per:(k+1)*per]) {
				return Batch{}, fmt.Errorf("%w: sample %d is empty, or has padding before its last position: give its positions first, and %s only after them", errs.ErrOptions, i, paddingText(longest))
			}
		}
		if err := m.Info.CheckTokens(row[:n*per]); err != nil {
			return Batch{}, fmt.Errorf("%w: %w", errs.ErrOptions, err)
		}
		shape.View[int32](to)[0] = int32(n)
		copy(to[4:], row[:n*per])
	}
	return Batch{given.Shape[0], out}, nil
}

// paddingText words the padding of samples in memory.
func paddingText(m shape.Meta) string {
	if m.DType == shape.Int32 {
		return fmt.Sprint(datasets.Padding)
	}
	return "NaN"
}
