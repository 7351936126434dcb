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
	Target shape.Meta
	// Length is the number of positions of sample i, where samples are sequences of
	// different lengths: from 1 to T, where Input is shape.I32(T) for tokens or shape.F32(T,
	// n) for n numbers at each position. A Target of shape.I32(T) or shape.F32(T, n) has as
	// many positions as its sample. It gives the same number each time; nil: all samples
	// have the shape Input.
	Length func(i int) int
	// Buckets are the numbers of positions to which sequences are padded, the fewest
	// first; the last is T. Each is compiled once. nil: 16, 32, 64 and so on, up to T.
	Buckets []int

	Classes int      // of an i32 target
	Labels  []string // names of the classes; nil: they have none
	Tokens  int      // distinct ids of an i32 input

	Len int // samples
	// Fill writes a sample: all elements of input and of target, which of a sequence have
	// its positions as their first axis. A class alone is the one element of target. Both tensors are of the caller and valid until
	// Fill returns: it keeps neither them nor slices of them, and allocates nothing to be
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
		f.Fill = (&filler{set: s, free: map[int][]*sampleView{}}).fill
	}
	if f.Length, f.Buckets = s.Length, s.Buckets; s.Length != nil && s.Buckets == nil && s.Input.Shape.Rank() > 0 {
		f.Buckets = datasets.PowerBuckets(s.Input.Shape[0])
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
	free map[int][]*sampleView // by positions; 0 where all samples have one shape
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

// fill has the set write a sample.
func (f *filler) fill(s Sample, input, target []byte) error {
	positions := 0
	if f.set.Length != nil {
		positions = len(input) / (int(f.set.Input.Bytes()) / f.set.Input.Shape[0])
	}
	v, err := f.take(positions)
	if err != nil {
		return err
	}
	if target == nil {
		target = v.aside
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
	f.free[positions] = append(f.free[positions], v)
	return nil
}

var errReplaced = errors.New("its function Fill gave a tensor another shape or memory: write the elements instead (input.Float32s(), target.Int32s())")

// take gives tensors that no other call uses, of samples with so many positions.
func (f *filler) take(positions int) (*sampleView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.free[positions]); n > 0 {
		v := f.free[positions][n-1]
		f.free[positions] = f.free[positions][:n-1]
		return v, nil
	}
	input, target := f.set.shapes(positions)
	v := &sampleView{}
	var err error
	if v.input, err = newField(input); err == nil && target.DType != shape.Invalid {
		v.target, err = newField(target)
		v.aside = make([]byte, target.Bytes())
	}
	return v, err
}

// shapes are the metadata of a sample; 0 positions are those of Input.
func (s *Set) shapes(positions int) (input, target shape.Meta) {
	input, target = s.Input, s.Target
	if positions > 0 {
		input = datasets.Sized(input, positions)
		if datasets.PerPosition(target) {
			target = datasets.Sized(target, positions)
		}
	}
	return input, target
}

func newField(m shape.Meta) (field, error) {
	d, err := hosttensor.New(m)
	return field{d, m}, err
}

func (f field) point(b []byte) {
	if f.dense != nil {
		hosttensor.Point(f.dense, b)
	}
}

// at reports whether the tensor is as it was pointed at b.
func (f field) at(b []byte) bool { return f.dense == nil || hosttensor.At(f.dense, f.meta.Shape, b) }
