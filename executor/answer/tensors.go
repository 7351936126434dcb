package answer

import (
	"fmt"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
)

// BatchOf checks a tensor of samples for a model.
func BatchOf(m *Model, samples *tensor.Dense) (b Batch, err error) {
	meta, memory, err := hosttensor.Bytes(samples)
	if err != nil {
		return b, fmt.Errorf("%w: %w", errs.ErrOptions, err)
	}
	return m.Check(meta, memory)
}

// TensorOf makes a tensor of outputs.
func TensorOf(m shape.Meta, out []float32, err error) (*tensor.Dense, error) {
	if err != nil {
		return nil, err
	}
	return hosttensor.Over(m, shape.Bytes(out))
}
