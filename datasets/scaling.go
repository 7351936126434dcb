package datasets

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/shape"
)

// Scaling is a standardisation, measured on a training part: feature i becomes
// (x-Mean[i])/Std[i]. A constant feature has Std 1 and becomes 0.
type Scaling struct {
	Mean, Std []float64
}

// fitScaling measures the mean and the deviation of each feature over train's
// samples, until ctx is done. at gives a row of the table, valid until the next
// call. The sums follow the order of the split, so that they are reproducible.
func fitScaling(ctx context.Context, train *Part, features int, at func(row int) []float32) (*Scaling, error) {
	s := &Scaling{make([]float64, features), make([]float64, features)}
	n := float64(train.count)
	constant := slices.Repeat([]bool{true}, features)
	first := slices.Clone(at(train.splitRow(0)))
	each := func(f func(row []float32)) error {
		return inPieces(ctx, train.count, max(1, pieceBytes/features), func(from, to int) error {
			for i := from; i < to; i++ {
				f(at(train.splitRow(i)))
			}
			return nil
		})
	}
	err := each(func(row []float32) {
		for j, v := range row {
			s.Mean[j] += float64(v) / n
			constant[j] = constant[j] && v == first[j]
		}
	})
	if err == nil {
		err = each(func(row []float32) {
			for j, v := range row {
				d := float64(v) - s.Mean[j]
				s.Std[j] += d * d / n
			}
		})
	}
	for j := range s.Std {
		if s.Std[j] = math.Sqrt(s.Std[j]); constant[j] {
			// The exact value: the mean has rounding errors of the sum.
			s.Mean[j], s.Std[j] = float64(first[j]), 1
		}
	}
	return s, err
}

// leave has features keep their values, but for those that are scaled.
func (s *Scaling) leave(scaled []bool) {
	for i, yes := range scaled {
		if !yes {
			s.Mean[i], s.Std[i] = 0, 1
		}
	}
}

// apply scales values, rows of features, in place, until ctx is done.
func (s *Scaling) apply(ctx context.Context, values []float32) error {
	return inPieces(ctx, len(values), pieceBytes, func(from, to int) error {
		for i := from; i < to; i++ {
			s.scale(values, i)
		}
		return nil
	})
}

// Apply scales values, rows of features, in place.
func (s *Scaling) Apply(values []float32) {
	for i := range values {
		s.scale(values, i)
	}
}

// scale scales one of the values.
func (s *Scaling) scale(values []float32, i int) {
	j := i % len(s.Mean)
	values[i] = float32((float64(values[i]) - s.Mean[j]) / s.Std[j])
}

// Undo turns scaled values, rows of features, back in place.
func (s *Scaling) Undo(values []float32) {
	for i := range values {
		j := i % len(s.Mean)
		values[i] = float32(float64(values[i])*s.Std[j] + s.Mean[j])
	}
}

// check checks a Scaling that was decoded, against the number of features.
func (s *Scaling) check(features int) error {
	if len(s.Mean) != features || len(s.Std) != features {
		return fmt.Errorf("%w: the scaling has %d means and %d deviations, for %d features", ErrSpec, len(s.Mean), len(s.Std), features)
	}
	return nil
}

// TargetSpread is, for each number of a target, the sum over the part of its squared
// deviations from its mean. It reads the whole part. Targets of each position count as
// targets by themselves.
func (p *Part) TargetSpread(ctx context.Context) ([]float64, error) {
	positions := 0
	if t := p.table.sequences; t != nil {
		p = p.InOrder() // it may be in batches of another size
		if PerPosition(t.target) {
			positions = t.target.Shape[0]
		}
	}
	whole := max(1, p.field(len(p.table.columns)-1).Meta.Elems())
	size := whole / max(1, positions)
	sums := spread{sums: make([]float64, size), squares: make([]float64, size)}
	err := p.eachTarget(ctx, func(sample int, target []byte) {
		values := shape.View[float32](target)
		if positions > 0 {
			values = values[:size*p.Length(sample)]
		}
		sums.add(values)
	})
	return sums.deviations(), err
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
