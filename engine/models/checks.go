package models

import "github.com/berth-ml/berth/engine/shape"

// accepts reports whether x may enter the current layer; if not, it fails.
func (c *context) accepts(in intake, x shape.Meta) bool {
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

// positive checks a size that must be given.
func (c *context) positive(key string, n int) bool {
	if n < 1 {
		c.fail("%s is %d: give it a number of at least 1", key, n)
	}
	return n >= 1
}

// windowed checks the window of a convolution or pool against images x.
func (c *context) windowed(l *Layer, x shape.Shape) bool {
	if !c.positive("kernel", l.Kernel) {
		return false
	}
	for i, side := range []string{"height", "width"} {
		if n := x[2+i]; l.Kernel > n+2*l.Padding {
			c.fail("a kernel of %d does not fit images of %s %d with padding %d: lower kernel or raise padding", l.Kernel, side, n, l.Padding)
			return false
		}
	}
	return true
}
