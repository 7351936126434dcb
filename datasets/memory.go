package datasets

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/internal/units"
)

// fits refuses a file whose samples take more bytes of memory than there are.
func fits(path string, need, memory int64) error {
	if memory <= 0 || need <= memory {
		return nil
	}
	take, free := units.TwoBytes(need, memory)
	if memory == 1 { // which stands for none
		free = "none"
	}
	return fmt.Errorf("%w: the samples of %s take %s of memory, and %s is free: train on a part of the file, or give the process more memory", ErrMemory, path, take, free)
}

// Bytes is the host memory that the samples take. Those that are in a file, or that a function
// writes, take none.
func (ds *Dataset) Bytes() (n int64) {
	var tables []*table
	for _, p := range []*Part{ds.Train, ds.Val, ds.Test} {
		if p == nil {
			continue
		}
		n += int64(4 * len(p.only))
		if !slices.Contains(tables, p.table) {
			tables = append(tables, p.table)
			n += p.table.bytes()
		}
	}
	return n
}

// bytes is the memory of the samples. Columns may have it in common, as the windows of a text and their
// targets do.
func (t *table) bytes() (n int64) {
	if t.sequences != nil {
		n = t.sequences.of.bytes()
	}
	if t.mapping != nil {
		return n
	}
	var counted []*byte
	for i := range t.columns {
		data := t.columns[i].data
		if len(data) > 0 && !slices.Contains(counted, &data[0]) {
			counted = append(counted, &data[0])
			n += int64(len(data))
		}
	}
	return n
}
