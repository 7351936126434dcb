package custom

import (
	"errors"
	"fmt"
	"sync"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
)

// Sample names the sample that Fill is to write.
type Sample = datasets.Sample

// Set is a data set whose samples a function writes. It does not change once it is
// used.
type Set struct {
	// Name and Version are part of the fingerprint: raise Version whenever the samples
	// change, and a run on other samples cannot be resumed by mistake.
	Name    string
	Version int // from 1
	// Contents tells samples apart beyond Name and Version, such as the hash of a file
	// that they are read from; "" for nothing. Some samples are part of the fingerprint,
	// too.
	Contents string

	Input shape.Meta // of a sample, such as shape.F32(28, 28); shape.I32(64) for tokens
	// Target is shape.I32() for a class, shape.I32(T) for a class at each position, or
	// shape.F32(n) for n numbers. The zero value: there are none, to predict from.
	Target  shape.Meta
	Classes int      // of an i32 target
	Labels  []string // names of the classes; nil: they have none
	Tokens  int      // distinct ids of an i32 input

	Len int // samples
	// Fill writes a sample: all elements of input and of target. A class alone is the
	// one element of target. Both tensors are of the caller and valid until Fill
	// returns: it keeps neither them nor slices of them, and allocates nothing to be
	// fast. It is called from several goroutines at once, in any order, and ahead of
	// the steps; for equal samples it writes equal numbers. Its error or panic ends the
	// run with an error that names the sample.
	Fill func(s Sample, input, target *tensor.Dense) error

	// Validation are the samples to validate with, if data.split is 0. nil: a random
	// part of the others.
	Validation *Set
}

// Filled is the set as package datasets reads it.
func (s *Set) Filled() (*datasets.Filled, error) {
	switch {
	case s == nil:
		return nil, fmt.Errorf("%w: there is no set", datasets.ErrSpec)
	case s.Name == "" || s.Version < 1:
		return nil, fmt.Errorf("%w: a set has a Name and a Version of at least 1, which the fingerprint of a run holds; they are %q and %d", datasets.ErrSpec, s.Name, s.Version)
	}
	f := &datasets.Filled{
		Name: s.Name, Identity: fmt.Sprintf("%s version %d %q", s.Name, s.Version, s.Contents),
		Input: s.Input, Target: s.Target, Classes: s.Classes, Labels: s.Labels, Tokens: s.Tokens, Len: s.Len,
	}
	if s.Fill != nil {
		f.Fill = (&filler{set: s}).fill
	}
	if s.Validation == nil {
		return f, nil
	}
	val, err := s.Validation.Filled()
	if err != nil {
		return nil, fmt.Errorf("validation: %w", err)
	}
	if val.Val != nil {
		return nil, fmt.Errorf("%w: the validation samples of %s have a Validation of their own: leave it out", datasets.ErrSpec, s.Name)
	}
	f.Val, f.Identity = val, f.Identity+", validation "+val.Identity
	return f, nil
}

// filler calls the Fill of a set with tensors over a batch.
type filler struct {
	set  *Set
	mu   sync.Mutex
	free []*sampleView
}

// sampleView is the tensors of one sample, over the memory of no batch until they are
// pointed at one.
type sampleView struct {
	input, target field
	aside         []byte // for a target that nobody reads
}

// field is one tensor of a sample.
type field struct {
	dense *tensor.Dense // nil: a sample has no such tensor
	meta  shape.Meta
}

// fill has the set write a sample to a row of a batch.
func (f *filler) fill(s Sample, row int, dst [][]byte) error {
	v, err := f.take()
	if err != nil {
		return err
	}
	input, target := v.input.row(dst[0], row), v.aside
	if len(dst) > 1 {
		target = v.target.row(dst[1], row)
	}
	v.input.point(input)
	v.target.point(target)
	if err := f.set.Fill(s, v.input.dense, v.target.dense); err != nil {
		return err // the tensors are not used again, as after a panic
	}
	if !v.input.at(input) || !v.target.at(target) {
		return errReplaced
	}
	v.input.point(nil)
	v.target.point(nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free = append(f.free, v)
	return nil
}

var errReplaced = errors.New("its function Fill gave a tensor another shape or memory: write the elements instead (input.Float32s(), target.Int32s())")

// take gives tensors that no other call uses.
func (f *filler) take() (*sampleView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.free); n > 0 {
		v := f.free[n-1]
		f.free = f.free[:n-1]
		return v, nil
	}
	v := &sampleView{}
	var err error
	if v.input, err = newField(f.set.Input); err == nil && f.set.Target.DType != shape.Invalid {
		v.target, err = newField(f.set.Target)
		v.aside = make([]byte, f.set.Target.Bytes())
	}
	return v, err
}

func newField(m shape.Meta) (field, error) {
	d, err := hosttensor.New(m)
	return field{d, m}, err
}

// row is the memory of a row of a batch.
func (f field) row(batch []byte, row int) []byte {
	n := int(f.meta.Bytes())
	return batch[row*n : (row+1)*n : (row+1)*n]
}

func (f field) point(b []byte) {
	if f.dense != nil {
		hosttensor.Point(f.dense, b)
	}
}

// at reports whether the tensor is as it was pointed at b.
func (f field) at(b []byte) bool { return f.dense == nil || hosttensor.At(f.dense, f.meta.Shape, b) }
