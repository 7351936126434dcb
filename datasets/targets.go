package datasets

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/shape"
)

// eachTarget reads the whole part, which is in no batches, and hands over each target.
func (p *Part) eachTarget(ctx context.Context, f func(sample int, target []byte)) error {
	const batch = 64
	dst := p.Alloc(batch)
	target := len(dst) - 1
	size := int(p.field(target).Meta.Bytes())
	for c := (Cursor{}); ; c.Index += batch {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := p.Read(c, batch, dst)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for j := range n {
			f(c.Index+j, dst[target][j*size:][:size])
		}
		if n < batch {
			return nil
		}
	}
}

// balance measures the weights of Info.Balanced. It reads the whole part.
func (p *Part) balance(ctx context.Context, info *Info) ([]float64, error) {
	counts, err := p.countTargets(ctx, info)
	if info.Target.Meta.DType == shape.Int32 {
		return balancedClasses(counts), err
	}
	return balancedBits(counts, float64(p.Samples())), err
}

// countTargets counts the targets of each class, or adds up each number of targets that are 0 or 1.
// It reads the whole part.
func (p *Part) countTargets(ctx context.Context, info *Info) (counts []float64, err error) {
	if info.Target.Meta.DType == shape.Int32 {
		counts = make([]float64, info.Classes)
		return counts, p.AsInputs().InOrder().eachTarget(ctx, func(_ int, target []byte) {
			for _, class := range shape.View[int32](target) {
				if class != Padding {
					counts[class]++
				}
			}
		})
	}
	counts = make([]float64, info.Target.Meta.Elems())
	return counts, p.InOrder().eachTarget(ctx, func(_ int, target []byte) {
		for i, v := range shape.View[float32](target) {
			counts[i] += float64(v)
		}
	})
}

// TargetEntropy is the entropy in nats of the classes' shares in the part: the least mean cross-entropy
// of an answer that is the same for all samples. Of several targets that are 0 or 1, it is the mean over these. It
// reads the whole part.
func (p *Part) TargetEntropy(ctx context.Context, info *Info) (entropy float64, err error) {
	counts, err := p.countTargets(ctx, info)
	if err != nil {
		return 0, err
	}
	if info.Target.Meta.DType == shape.Int32 {
		n := 0.0
		for _, count := range counts {
			n += count
		}
		return entropyOf(n, counts...), nil
	}
	n := float64(p.Samples())
	for _, ones := range counts {
		entropy += entropyOf(n, ones, n-ones) / float64(len(counts))
	}
	return entropy, nil
}

// entropyOf is the entropy in nats of shares of n.
func entropyOf(n float64, counts ...float64) (entropy float64) {
	for _, count := range counts {
		if count > 0 {
			entropy -= count / n * math.Log(count/n)
		}
	}
	return entropy
}

// balancedClasses is n/(k·count) for each class, of n targets of k classes. A class without
// targets is not one of the k, and has 1.
func balancedClasses(counts []float64) []float64 {
	n, k := 0.0, 0.0
	for _, count := range counts {
		if n += count; count > 0 {
			k++
		}
	}
	weights := slices.Repeat([]float64{1}, len(counts))
	for class, count := range counts {
		if count > 0 {
			weights[class] = n / (k * count)
		}
	}
	return weights
}

// balancedBits is the zeros for each one of n targets; 1 where all are equal.
func balancedBits(ones []float64, n float64) []float64 {
	weights := slices.Repeat([]float64{1}, len(ones))
	for i, count := range ones {
		if count > 0 && count < n {
			weights[i] = (n - count) / count
		}
	}
	return weights
}
