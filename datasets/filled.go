package datasets

import (
	"fmt"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/panics"
)

// Filled is a data set whose samples a function writes, one at a time, when a batch
// is read. Package custom makes one of a program's own data set.
type Filled struct {
	Name     string // of the data set, with its version
	Identity string // all that decides the samples; part of the fingerprint
	Input    shape.Meta
	Target   shape.Meta // without an element type: there are no targets, and nothing can be trained
	Classes  int        // of an i32 target
	Labels   []string   // by class; nil: they have no names
	Tokens   int        // of an i32 input
	Len      int        // samples
	// Fill writes all elements of a sample; target is nil where nobody reads it. It is
	// called from several goroutines at once, allocates nothing, and keeps no memory.
	Fill func(s Sample, input, target []byte) error
	// Length is the positions of a sample, from 1 to the first axis of Input; nil: all have
	// the shape Input. A target is one for each position if PerPosition says so.
	Length  func(i int) int
	Buckets []int   // with Length: to which samples are padded; the last is the first axis of Input
	Val     *Filled // own samples to validate with; nil: a part of the others
}

// Sample names a sample that a function is to write.
type Sample struct {
	Index int // from 0
	Epoch int // of training, from 0; -1: the sample is to be evaluated or predicted from
	// Seed is the same for the same run, index and epoch: random changes to a sample
	// follow it, so that a resumed run trains on the same numbers.
	Seed uint64
}

// ErrFill is about a sample that a program's function failed to write.
var ErrFill = fmt.Errorf("%w of the program's own", ErrFormat)

// check refuses a data set that nothing can be read from.
func (f *Filled) check() error {
	switch t := f.Target; {
	case f.Fill == nil:
		return fmt.Errorf("%w: %s has no function Fill", ErrSpec, f.Name)
	case f.Len < 1:
		return fmt.Errorf("%w: %s has %d samples: it needs at least one", ErrSpec, f.Name, f.Len)
	case !readable(f.Input):
		return fmt.Errorf("%w: %s: an input is %v: give f32 or i32 and a shape", ErrSpec, f.Name, f.Input)
	case f.Input.DType == shape.Int32 && f.Tokens < 1:
		return fmt.Errorf("%w: %s: an input of ids needs Tokens, the number of distinct ids", ErrSpec, f.Name)
	case t.DType == shape.Invalid:
	case !readable(t):
		return fmt.Errorf("%w: %s: a target is %v: give f32 or i32 and a shape", ErrSpec, f.Name, t)
	case t.DType == shape.Int32 && f.Classes < 2:
		return fmt.Errorf("%w: %s: an i32 target is a class, and Classes is %d: give the number of classes, at least 2", ErrSpec, f.Name, f.Classes)
	}
	return f.checkLengths()
}

// checkLengths refuses samples of different lengths that no model takes.
func (f *Filled) checkLengths() error {
	if f.Length == nil && f.Buckets == nil {
		return nil
	}
	in, t := f.Input, f.target().Meta
	switch {
	case f.Length == nil:
		return fmt.Errorf("%w: %s has buckets and no function Length: give both, or neither", ErrSpec, f.Name)
	case in.DType == shape.Int32 && in.Shape.Rank() != 1, in.DType == shape.Float32 && in.Shape.Rank() < 2:
		return fmt.Errorf("%w: %s: samples of different lengths are %v: give tokens, i32[positions], or numbers, f32[positions, features]", ErrSpec, f.Name, in)
	case t.DType != shape.Invalid && PerPosition(t) && t.Shape[0] != in.Shape[0]:
		return fmt.Errorf("%w: %s: a sample has up to %d positions, and its target, %v, another number: make the first axes alike", ErrSpec, f.Name, in.Shape[0], t)
	}
	if err := checkBuckets(f.Buckets); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	if last := f.Buckets[len(f.Buckets)-1]; last != in.Shape[0] {
		return fmt.Errorf("%w: %s: the largest bucket is %d, and the longest sample has %d positions (the first axis of Input): make them equal", ErrSpec, f.Name, last, in.Shape[0])
	}
	return nil
}

func readable(m shape.Meta) bool {
	return (m.DType == shape.Float32 || m.DType == shape.Int32) && m.Shape.Validate() == nil && m.Elems() > 0
}

// target is the field of the target. A number has an axis of size 1.
func (f *Filled) target() Field {
	m := f.Target
	if m.DType == shape.Float32 && m.Shape.Rank() == 0 {
		m.Shape = shape.Of(1)
	}
	return Field{"target", m}
}

// write has the function write a sample. It refuses ids that the model has no room for, and
// with unit targets outside 0 to 1.
func (f *Filled) write(x Sample, input, target []byte, unit bool) error {
	if err := f.Fill(x, input, target); err != nil {
		return err
	}
	if f.Input.DType == shape.Int32 {
		if err := within("token", "Tokens", shape.View[int32](input), f.Tokens); err != nil {
			return err
		}
	}
	if f.Target.DType == shape.Int32 {
		return within("class", "Classes", shape.View[int32](target), f.Classes)
	}
	if unit {
		for _, v := range shape.View[float32](target) {
			if !(v >= 0 && v <= 1) {
				return fmt.Errorf("%s", notUnit(v))
			}
		}
	}
	return nil
}

// within refuses ids that are not from 0 to n-1.
func within(what, count string, ids []int32, n int) error {
	for _, id := range ids {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("the %s is %d, and %s is %d: it must be from 0 to %d", what, id, count, n, n-1)
		}
	}
	return nil
}

// failed is the error of a function of the program's about a sample.
func (f *Filled) failed(x Sample, err error) error {
	return fmt.Errorf("%w: %s, sample %d: %w", ErrFill, f.Name, x.Index, err)
}

// guard makes a panic in a function of the program's about sample x an error. Where f is
// nil, no such function runs.
func (f *Filled) guard(x *Sample, err *error) {
	if f == nil {
		return
	}
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %s, sample %d: panic: %s", ErrFill, f.Name, x.Index, panics.Text(r))
	}
}
