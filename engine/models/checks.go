package models

import "github.com/berth-ml/berth/engine/shape"

// accepts reports whether x may enter the current layer; if not, it fails.
func (c *context) accepts(in Intake, x shape.Meta) bool {
	rank := x.Shape.Rank()
	switch {
	case x.DType == shape.Int32 && in.dtype == shape.Float32:
		c.fail("its input is %v, which are tokens: put an embedding layer before it", x)
	case in.dtype != shape.Invalid && x.DType != in.dtype, rank < in.min, in.max > 0 && rank > in.max:
		c.fail("its input is %v: it takes %s", x, in.words)
	default:
		return true
	}
	return false
}

// windowed checks a window against images x.
func (c *context) windowed(kernel, padding int, x shape.Shape) bool {
	for i, side := range []string{"height", "width"} {
		if n := x[2+i]; kernel > n+2*padding {
			c.fail("a kernel of %d does not fit images of %s %d with padding %d: lower kernel or raise padding", kernel, side, n, padding)
			return false
		}
	}
	return true
}
