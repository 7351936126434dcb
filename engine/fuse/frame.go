package fuse

import (
	"fmt"

	"github.com/berth-ml/berth/engine/shape"
)

// Span says where an operand lies in a frame: element i of the frame reads
// element (i/Inner) mod Count of the operand.
type Span struct{ Inner, Count int }

// full is an operand that has as many elements as the frame.
func full(elems int) Span { return Span{1, elems} }

// Full tells an operand that is read element by element.
func (s Span) Full(elems int) bool { return s.Inner == 1 && s.Count == elems }

// SpanOf is how a tensor of shape s lies in one of shape to, which it
// broadcasts to. It is false where s is stretched in two places.
func SpanOf(s, to shape.Shape) (Span, bool) {
	n, elems := s.Elems(), to.Elems()
	if n == elems {
		return full(elems), true
	}
	if n == 1 {
		return Span{max(1, elems), 1}, true
	}
	// What s has of its own must be neighbours: [inner stretched] own [stretched].
	inner, own := 1, 1
	d := len(s) - 1
	at := func(d int) int { return to[len(to)-len(s)+d] }
	for ; d >= 0 && s[d] == 1; d-- {
		inner *= at(d)
	}
	for ; d >= 0 && s[d] == at(d); d-- {
		own *= s[d]
	}
	return Span{inner, own}, own == n
}

// Frame is what a cluster runs over: Elems elements in rows of Cols.
type Frame struct {
	Elems int
	rows  int // exactly that many columns, 0 for any number
	even  int // a number of columns that divides this, 0 for any number
}

// Cols is how long a row is. Operands are either stretched over rows, or over
// whole rows, or not at all.
func (f Frame) Cols() int {
	switch {
	case f.rows > 0:
		return f.rows
	case f.even > 0:
		return f.even
	}
	return f.Elems
}

// String is "768 rows of 128".
func (f Frame) String() string {
	if c := f.Cols(); c > 0 && c < f.Elems {
		return fmt.Sprintf("%d rows of %d", f.Elems/c, c)
	}
	return fmt.Sprintf("%d elements", f.Elems)
}

// with is the frame in which an operand can be stretched too.
func (f Frame) with(s Span) (Frame, bool) {
	if s.Count <= 1 || s.Full(f.Elems) {
		return f, true
	}
	own := s.Inner
	if own == 1 {
		own = s.Count
	}
	return f.join(Frame{Elems: f.Elems, even: own})
}

// join is the frame that suits both. The number of columns must be one of
// theirs: shorter rows would cost more than fusing saves.
func (f Frame) join(o Frame) (Frame, bool) {
	switch {
	case f.Elems != o.Elems || f.rows > 0 && o.rows > 0 && f.rows != o.rows:
		return f, false
	case f.even == 0:
		f.even = o.even
	case o.even > 0 && f.even%o.even == 0:
		f.even = o.even
	case o.even > 0 && o.even%f.even != 0:
		return f, false
	}
	f.rows = max(f.rows, o.rows)
	return f, f.rows == 0 || f.even%f.rows == 0
}
