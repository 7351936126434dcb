package checkpoint

import (
	"cmp"
	"context"
	"slices"
)

// This file puts records and chunks that a scan found in the place of those that
// a damaged file's pages do not lead to.

// rescue scans the file, and has later reads fall back on the records and chunks
// that it found.
func (im *image) rescue(ctx context.Context) error {
	s, err := newScan(ctx, im.r, im.size)
	if err != nil {
		return err
	}
	im.found = &s.found
	ids, _, err := im.ids()
	if err != nil {
		return err
	}
	wanted := map[Hash]int64{}
	for _, id := range ids {
		m, err := im.manifest(id, true)
		if err != nil {
			continue // reading this checkpoint reports it
		}
		for _, t := range m.Tensors {
			for _, c := range t.Chunks {
				wanted[c.Hash] = int64(c.Size)
			}
		}
	}
	return s.resolve(wanted)
}

// beside adds the ids of manifests that were found to ids. A checkpoint that the
// head, if it is known, does not name was deleted, and is not added.
func (f *found) beside(ids []uint64, h head, known bool) []uint64 {
	for id := range f.manifests {
		_, there := slices.BinarySearch(h.IDs, id)
		if there || !known || id >= h.Next {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// newestHead is the head, of those found, that was written last: a save makes
// Next larger, and between two saves the list of ids only gets shorter.
func (f *found) newestHead() (head, bool) {
	if len(f.heads) == 0 {
		return head{}, false
	}
	return slices.MaxFunc(f.heads, func(a, b head) int {
		return cmp.Or(cmp.Compare(a.Next, b.Next), cmp.Compare(len(b.IDs), len(a.IDs)))
	}), true
}
