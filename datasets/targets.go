package datasets

import (
	"context"
	"errors"
	"io"

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

// countClasses counts the targets of the part by class. It reads the whole part.
func (p *Part) countClasses(ctx context.Context, classes int) ([]int, error) {
	counts := make([]int, classes)
	err := p.InOrder().eachTarget(ctx, func(_ int, target []byte) {
		for _, class := range shape.View[int32](target) {
			if class != Padding {
				counts[class]++
			}
		}
	})
	return counts, err
}
