package custom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"weak"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
)

// checked is the most samples that Check reads.
const checked = 64

// Check reads some samples of a set in several ways, for a test of the program's, and
// tells the usual mistakes: elements that Fill does not write, samples that differ
// from call to call, and tensors that it keeps, or slices of them.
func Check(s *Set) error {
	f, err := s.Filled()
	if err != nil {
		return err
	}
	ds, err := datasets.Open(context.Background(), datasets.Spec{Source: s.Name, Filled: f, Split: 1, KeepOrder: true})
	if err != nil {
		return err
	}
	part := ds.Train
	if err := keeps(s); err != nil {
		return err
	}
	var kept [][]byte // memory of calls that have returned
	for i := range min(checked, s.Len) {
		at := datasets.Cursor{Index: i * s.Len / min(checked, s.Len)}
		first, err := readOver(part, at, 0x00)
		if err != nil {
			return err
		}
		second, err := readOver(part, at, 0xff)
		if err != nil {
			return err
		}
		for k, field := range part.Fields() {
			if !bytes.Equal(first[k], second[k]) {
				return fmt.Errorf("%s, sample %d: the %s differs from one call to the next: Fill writes all elements, and the same ones for the same sample", s.Name, at.Index, field.Name)
			}
			kept = append(kept, first[k], second[k])
		}
	}
	for _, b := range kept {
		clear(b)
	}
	if err := readTogether(part); err != nil {
		return err
	}
	for _, b := range kept {
		if bytes.ContainsFunc(b, func(r rune) bool { return r != 0 }) {
			return errKept(s)
		}
	}
	return nil
}

func errKept(s *Set) error {
	return fmt.Errorf("%s: Fill keeps a tensor, or a slice of one, beyond its call: copy the numbers instead", s.Name)
}

// keeps calls Fill with tensors of their own, and looks whether the garbage collector
// finds them in use afterwards.
func keeps(s *Set) error {
	var used []func() bool
	for i := range min(4, s.Len) {
		inUse, err := fillOnce(s, i)
		if err != nil {
			return err
		}
		used = append(used, inUse)
	}
	runtime.GC()
	runtime.GC() // of what the first one found in pools
	for _, inUse := range used {
		if inUse() {
			return errKept(s)
		}
	}
	return nil
}

// fillOnce writes a sample to tensors that nothing else uses. inUse reports whether
// something still does, after a collection.
//
//go:noinline
func fillOnce(s *Set, sample int) (inUse func() bool, err error) {
	var tensors [2]*tensor.Dense
	var weakly []func() bool
	positions := 0
	if s.Length != nil {
		positions = s.Length(sample)
	}
	input, target := s.shapes(positions)
	for i, m := range []shape.Meta{input, target} {
		const least = 8 // words: smaller pieces of memory share a block, and stay with it
		memory := make([]int64, max(least, (m.Bytes()+7)/8))
		if tensors[i], err = hosttensor.Over(m, shape.Bytes(memory)); err != nil {
			return nil, err
		}
		t, first := weak.Make(tensors[i]), weak.Make(&memory[0])
		weakly = append(weakly, func() bool { return t.Value() != nil || first.Value() != nil })
	}
	if err := s.Fill(Sample{Index: sample, Epoch: -1}, tensors[0], tensors[1]); err != nil {
		return nil, fmt.Errorf("%s, sample %d: %w", s.Name, sample, err)
	}
	return func() bool { return weakly[0]() || weakly[1]() }, nil
}

// readOver reads the sample at a cursor into memory that is full of one byte.
func readOver(p *datasets.Part, at datasets.Cursor, full byte) ([][]byte, error) {
	dst := p.Alloc(1)
	for _, b := range dst {
		for i := range b {
			b[i] = full
		}
	}
	_, err := p.Read(at, 1, dst)
	return dst, err
}

// readTogether reads samples on two goroutines at once, as the loaders of training
// and of validation do: the race detector sees what they share.
func readTogether(p *datasets.Part) error {
	var both sync.WaitGroup
	errs := make([]error, 2)
	for k := range errs {
		both.Go(func() {
			for i := range min(checked, p.Len()) {
				if _, err := readOver(p, datasets.Cursor{Epoch: k, Index: i}, 0); err != nil {
					errs[k] = err
				}
			}
		})
	}
	both.Wait()
	return errors.Join(errs...)
}
