package datasets

import (
	"math"

	"github.com/berth-ml/berth/engine/shape"
)

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
