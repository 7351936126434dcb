package fuse

import (
	"fmt"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// Stretch says how an operand fills a frame: element i of the frame reads element
// (i/Inner) mod Count of the operand.
type Stretch struct{ Inner, Count int }

// full is the stretch of an operand with as many elements as the frame.
func full(elems int) Stretch { return Stretch{1, elems} }

// Full tells whether the operand is read element by element.
func (s Stretch) Full(elems int) bool { return s.Inner == 1 && s.Count == elems }

// StretchOf is the stretch of a tensor of shape s that broadcasts to shape to. It
// is false if broadcasting stretches s in two places.
func StretchOf(s, to shape.Shape) (Stretch, bool) {
	n, elems := s.Elems(), to.Elems()
	if n == elems {
		return full(elems), true
	}
	if n == 1 {
		return Stretch{max(1, elems), 1}, true
	}
	// The dimensions that s has itself must be neighbours: from the last
	// dimension on, inner stretched ones, then its own, then stretched ones.
	inner, own := 1, 1
	d := len(s) - 1
	at := func(d int) int { return to[len(to)-len(s)+d] }
	for ; d >= 0 && s[d] == 1; d-- {
		inner *= at(d)
	}
	for ; d >= 0 && s[d] == at(d); d-- {
		own *= s[d]
	}
	return Stretch{inner, own}, own == n
}

// Frame is the elements that a cluster runs over: Elems elements in rows of Cols.
type Frame struct {
	Elems int
	cols  int // the number of columns; 0 for any
	even  int // a multiple of the number of columns; 0 for any
}

// Cols is the number of columns, the length of a row. Operands are stretched over
// rows, or over whole rows, or not at all.
func (f Frame) Cols() int {
	switch {
	case f.cols > 0:
		return f.cols
	case f.even > 0:
		return f.even
	}
	return f.Elems
}

// String is "768 rows of 128".
func (f Frame) String() string {
	if c := f.Cols(); c > 0 && c < f.Elems {
		return fmt.Sprintf("%s rows of %s", units.Thousands(f.Elems/c), units.Thousands(c))
	}
	return units.Thousands(f.Elems) + " elements"
}

// with is the frame that suits a stretched operand too; false if there is none.
func (f Frame) with(s Stretch) (Frame, bool) {
	if s.Count <= 1 || s.Full(f.Elems) {
		return f, true
	}
	own := s.Inner
	if own == 1 {
		own = s.Count
	}
	return f.join(Frame{Elems: f.Elems, even: own})
}

// join is the frame that suits both; false if there is none. It has the columns of one of
// them: rows cut shorter to suit both would cost more than fusing saves.
func (f Frame) join(o Frame) (Frame, bool) {
	switch {
	case f.Elems != o.Elems || f.cols > 0 && o.cols > 0 && f.cols != o.cols:
		return f, false
	case f.even == 0:
		f.even = o.even
	case o.even > 0 && f.even%o.even == 0:
		f.even = o.even
	case o.even > 0 && o.even%f.even != 0:
		return f, false
	}
	f.cols = max(f.cols, o.cols)
	return f, f.cols == 0 || f.even%f.cols == 0
}
