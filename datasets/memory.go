package datasets

import (
	"fmt"

	"github.com/berth-ml/berth/internal/units"
)

// fits refuses a file whose samples take more bytes of memory than there are.
func fits(path string, need, memory int64) error { return fitsOr(path, need, memory, "") }

// fits is that of a table. One to train on may be larger than memory.
func (c *csvColumns) fits(need, memory int64) error {
	other := "keep the samples in a file (--set data.memory=32MiB), "
	if c.trained {
		other = ""
	}
	return fitsOr(c.path, need, memory, other)
}

// fitsOr is fits with other advice than to take a part, which ends in a comma.
func fitsOr(path string, need, memory int64, other string) error {
	if memory <= 0 || need <= memory {
		return nil
	}
	take, free := units.TwoBytes(need, memory)
	if memory == 1 { // which stands for none
		free = "none"
	}
	return fmt.Errorf("%w: the samples of %s take %s of memory, and %s is free: train on a part of the file, %sor give the process more memory", ErrMemory, path, take, free, other)
}

// Bytes is the host memory that the samples take. Those that are in a file, or that a function
// writes, take none.
func (ds *Dataset) Bytes() int64 { return bytesOf(ds.parts()) }

// PictureBytes is the host memory of decoded images, which devices.host_memory bounds. Images in a file take none.
func (ds *Dataset) PictureBytes() int64 {
	if ds.Info.Pictures == nil {
		return 0
	}
	return ds.Bytes()
}

// bytesOf is the memory of parts. They may have it in common, as may the columns of one: the windows of a text
// and their targets do.
func bytesOf(parts []*Part) (n int64) {
	seen := map[any]bool{}
	count := func(at any, bytes int) {
		if !seen[at] {
			seen[at] = true
			n += int64(bytes)
		}
	}
	for _, p := range parts {
		if len(p.only) > 0 {
			count(&p.only[0], 4*len(p.only))
		}
		if s := p.table.sequences; s != nil {
			count(s.of, int(s.of.bytes()))
		}
		for i := range p.table.columns {
			if data := p.table.columns[i].data; len(data) > 0 && p.table.mapping == nil {
				count(&data[0], len(data))
			}
		}
	}
	return n
}
