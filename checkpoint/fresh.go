package checkpoint

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"os"
)

// errUnused is the error for a file that was never used.
var errUnused = fmt.Errorf("%w: the file is empty: nothing has been saved in it yet, or it was emptied", ErrNotFound)

// neverUsed reports whether the file is new, or its creation was cut short before
// anything could be saved in it.
//
// bbolt writes transactions 0 and 1 into an empty file; transaction 2 makes the
// buckets. The two meta pages take turns. So if the newer valid one is of
// transaction 0 or 1, no transaction after 2 was committed.
func neverUsed(f *os.File) (bool, error) {
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return err == nil, err
	}
	if im, err := openImage(f, st.Size()); err == nil {
		return im.txid <= 1, nil
	}
	if st.Size() > 1<<20 {
		return false, nil
	}
	b := make([]byte, st.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		return false, err
	}
	return tornStart(b), nil
}

// tornStart reports whether contents can be those of bbolt's first write into an
// empty file, of which only some sectors reached the disk.
func tornStart(b []byte) bool {
	const sector = 512
	first := firstPages(os.Getpagesize())
	for at := 0; at < len(b); at += sector {
		part := b[at:min(at+sector, len(b))]
		written := at < len(first) && bytes.HasPrefix(first[at:], part)
		if !written && len(bytes.Trim(part, "\x00")) > 0 {
			return false
		}
	}
	return true
}

// firstPages are the pages that bbolt writes into an empty file: two meta pages, an
// empty free list and an empty leaf.
func firstPages(page int) []byte {
	b := make([]byte, 4*page)
	for id := range uint64(4) {
		p := b[int(id)*page:]
		native.PutUint64(p, id)
		native.PutUint16(p[8:], [...]uint16{flagMeta, flagMeta, flagFreelist, flagLeaf}[id])
	}
	for txid := range uint64(2) {
		m := b[int(txid)*page+pageHeader:]
		native.PutUint32(m, boltMagic)
		native.PutUint32(m[4:], boltVersion)
		native.PutUint32(m[8:], uint32(page))
		native.PutUint64(m[16:], 3) // root
		native.PutUint64(m[32:], 2) // free list
		native.PutUint64(m[40:], 4) // pages
		native.PutUint64(m[48:], txid)
		h := fnv.New64a()
		h.Write(m[:56])
		native.PutUint64(m[56:], h.Sum64())
	}
	return b
}
