package datasets

import (
	"context"
	"errors"
	"io"

	"github.com/berth-ml/berth/engine/shape"
)

// TargetSpread is, for each number of a target, the sum over the part of its squared
// deviations from its mean. It reads the whole part. Targets of each position count as
// targets by themselves.
func (p *Part) TargetSpread(ctx context.Context) ([]float64, error) {
	const batch = 64
	positions := 0
	if p.table.sequences != nil {
		p = p.InOrder() // it may be in batches of another size
		if m := p.table.sequences.target; PerPosition(m) {
			positions = m.Shape[0]
		}
	}
	dst := p.Alloc(batch)
	target := len(dst) - 1
	whole := max(1, p.Fields()[target].Meta.Elems())
	size := whole / max(1, positions)
	sums := spread{sums: make([]float64, size), squares: make([]float64, size)}
	for c := (Cursor{}); ; c.Index += batch {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n, err := p.Read(c, batch, dst)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		for j := range n {
			values := shape.View[float32](dst[target])[j*whole:][:whole]
			if positions > 0 {
				values = values[:size*p.Length(c.Index+j)]
			}
			sums.add(values)
		}
		if n < batch {
			return sums.deviations(), nil
		}
	}
}

// spread adds up targets.
type spread struct {
	first         []float32 // sums are of differences from these: a number that never changes has exactly 0
	sums, squares []float64
	count         int
}

// add adds one or more targets.
func (s *spread) add(values []float32) {
	size := len(s.sums)
	if s.first == nil {
		s.first = append(s.first, values[:size]...)
	}
	s.count += len(values) / size
	for i, v := range values {
		d := float64(v) - float64(s.first[i%size])
		s.sums[i%size] += d
		s.squares[i%size] += d * d
	}
}

// deviations are the sums of the squared deviations from the mean.
func (s *spread) deviations() []float64 {
	for i := range s.squares {
		s.squares[i] -= s.sums[i] * s.sums[i] / float64(s.count)
	}
	return s.squares
}
