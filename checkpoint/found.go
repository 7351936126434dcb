package checkpoint

import (
	"cmp"
	"slices"
)

// found lists the records and chunks that a scan came upon.
type found struct {
	manifests map[uint64][]byte // id → payload
	heads     []head
	tables    map[Hash]extent
	chunks    map[Hash]extent
}

// extent is a range of bytes in a file.
type extent struct {
	at, size int64
	packed   bool // the compressed contents of a chunk
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
