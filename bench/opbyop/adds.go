package main

import (
	"context"
	"errors"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/eager"
)

// blockCalls is the calls in a block of additions, and tapeCalls those that a tape records.
const blockCalls, tapeCalls = 2000, 100

// filled is a vector of one value.
func filled(c *berth.OpByOp, elements int, value float64) eager.Tensor {
	return c.One(ops.Fill{Meta: shape.F32(elements), Value: value})
}

// newAdds makes y = y + x, again and again.
func newAdds(c *berth.OpByOp, elements int) bench {
	x, y := filled(c, elements, 1), filled(c, elements, 0)
	return bench{
		calls: blockCalls,
		block: func() error {
			for range blockCalls {
				y = c.One(ops.AddOp, y, x.Ref())
			}
			return y.Wait(context.Background())
		},
		close: func() error { return errors.Join(x.Release(), y.Release()) },
	}
}

// newAddsApart makes x + x, again and again, whose results nobody reads.
func newAddsApart(c *berth.OpByOp, elements int) bench {
	x := filled(c, elements, 1)
	return bench{
		calls: blockCalls,
		block: func() (err error) {
			var y eager.Tensor
			for i := range blockCalls {
				if y = c.One(ops.AddOp, x.Ref(), x.Ref()); i < blockCalls-1 {
					err = errors.Join(err, y.Release())
				}
			}
			return errors.Join(err, y.Wait(context.Background()), y.Release())
		},
		close: x.Release,
	}
}

// newAutograd records y = y + x a number of times, and takes the gradient by x.
func newAutograd(c *berth.OpByOp, elements int) bench {
	x := filled(c, elements, 1)
	return bench{
		calls: tapeCalls,
		block: func() error {
			tape := c.NewTape()
			y := tape.One(ops.AddOp, x.Ref(), x.Ref())
			for range tapeCalls - 1 {
				y = tape.One(ops.AddOp, y, x.Ref())
			}
			slopes, err := tape.Gradients(y, x)
			if err := errors.Join(err, tape.Close(), y.Release()); err != nil {
				return err
			}
			return errors.Join(slopes[0].Wait(context.Background()), slopes[0].Release())
		},
		close: x.Release,
	}
}
