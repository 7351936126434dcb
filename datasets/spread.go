package datasets

import (
	"context"
	"errors"
	"io"

	"github.com/berth-ml/berth/engine/shape"
)

// TargetSpread is, for each number of a target, the sum over the part of its squared
// deviations from its mean. It reads the whole part.
func (p *Part) TargetSpread(ctx context.Context) ([]float64, error) {
	const batch = 64
	dst := p.Alloc(batch)
	target := len(dst) - 1
	size := max(1, p.Fields()[target].Meta.Elems())
	var first []float32 // sums are of differences from these: a number that never changes has exactly 0
	sums, squares := make([]float64, size), make([]float64, size)
	for c := (Cursor{}); ; c.Index += batch {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n, err := p.Read(c, batch, dst)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		values := shape.View[float32](dst[target])[:n*size]
		if first == nil {
			first = append(first, values[:size]...)
		}
		for i, v := range values {
			d := float64(v) - float64(first[i%size])
			sums[i%size] += d
			squares[i%size] += d * d
		}
		if n < batch {
			break
		}
	}
	for i := range squares {
		squares[i] -= sums[i] * sums[i] / float64(p.Len())
	}
	return squares, nil
}
