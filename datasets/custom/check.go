package custom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/berth-ml/berth/datasets"
)

// checked is the most samples that Check reads.
const checked = 64

// Check reads some samples of a set in several ways, for a test of the program's, and
// tells the usual mistakes: elements that Fill does not write, samples that differ
// from call to call, and memory that it writes after it has returned.
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
			return fmt.Errorf("%s: Fill writes to a tensor of a call that has returned: keep no tensor and no slice of one", s.Name)
		}
	}
	return nil
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
