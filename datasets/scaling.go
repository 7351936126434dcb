package datasets

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Scaling is a standardisation, measured on a training part: feature i becomes
// (x-Mean[i])/Std[i]. A constant feature has Std 1 and becomes 0.
type Scaling struct {
	Mean, Std []float64
}

// fitScaling measures the mean and the deviation of each feature over train's
// samples, until ctx is done. values is [rows, features], by the rows of the
// table. The sums follow the order of the split, so that they are reproducible.
func fitScaling(ctx context.Context, train *Part, values []float32, features int) (*Scaling, error) {
	s := &Scaling{make([]float64, features), make([]float64, features)}
	n := float64(train.count)
	constant := slices.Repeat([]bool{true}, features)
	first := train.splitRow(0) * features
	each := func(f func(row []float32)) error {
		return inPieces(ctx, train.count, max(1, pieceBytes/features), func(from, to int) error {
			for i := from; i < to; i++ {
				row := train.splitRow(i) * features
				f(values[row : row+features])
			}
			return nil
		})
	}
	err := each(func(row []float32) {
		for j, v := range row {
			s.Mean[j] += float64(v) / n
			constant[j] = constant[j] && v == values[first+j]
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
			s.Mean[j], s.Std[j] = float64(values[first+j]), 1
		}
	}
	return s, err
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
