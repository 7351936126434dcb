package checkpoint

import (
	"bytes"
	"os"
)

// CheckPages reads the structure of a bbolt file without bbolt, which trusts what it maps:
// nothing in a file that passes makes bbolt panic, or take memory without bound. The file may
// be of any program. unused says that it is new, or that its creation was cut short.
func CheckPages(f *os.File) (unused bool, err error) {
	if unused, err = neverUsed(f); unused || err != nil {
		return unused, err
	}
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	im, err := openImage(f, st.Size())
	if err != nil {
		return false, err
	}
	return false, im.check()
}

// walk visits trees in order of keys, and checks everything that bbolt relies on. One call of check
// or each makes it, and others for the buckets inside.
type walk struct {
	im   *image
	fn   func(item) error // for every item of a leaf; may be nil
	used []uint64         // a bit for each page that was met; nil: pages may be met more than once
	deep bool             // go into buckets
	prev []byte           // last key met in the tree
}

// check walks the whole file. Every page must be in bounds and be met once, every
// key must be in order, and no page in use may be on the free list. Nothing in a
// file that passes makes bbolt panic, or overwrite a page in use.
func (im *image) check() error {
	if im.high > uint64(im.size/im.page) {
		return damaged("the file is cut off: it has %d bytes of %d", im.size, int64(im.high)*im.page)
	}
	w := &walk{im: im, deep: true, used: make([]uint64, im.high/64+1)}
	n, err := im.load(im.root)
	if err != nil {
		return err
	}
	if err := w.tree(n, nil, 0); err != nil {
		return err
	}
	return w.freelist()
}

// tree walks the pages below n, whose keys must not be below lo.
func (w *walk) tree(n *node, lo []byte, depth int) error {
	if depth > maxDepth {
		return damaged("page %d: the tree is too deep, or has a cycle", n.id)
	}
	if n.flags == flagFreelist {
		return damaged("page %d belongs to a tree, but is a free list", n.id)
	}
	if n.count == 0 && (depth > 0 || n.flags == flagBranch) {
		return damaged("page %d is empty", n.id)
	}
	if err := w.mark(n); err != nil {
		return err
	}
	// Keys and values lie side by side from the table's end on. No key is below lo, and each is
	// above the last key met; of a branch's first key, lo says enough.
	end := n.start()
	for i := range n.count {
		it, err := n.item(i)
		if err != nil {
			return err
		}
		if it.begin != end {
			return damaged("page %d element %d is not where the one before ends", n.id, i)
		}
		end = it.end
		if bytes.Compare(it.key, lo) < 0 || (w.prev != nil && bytes.Compare(it.key, w.prev) <= 0 && (n.flags == flagLeaf || i > 0)) {
			return damaged("page %d element %d is out of order", n.id, i)
		}
		if err := w.item(n, it, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) item(n *node, it item, depth int) error {
	if n.flags == flagBranch {
		below, err := w.im.load(it.child)
		if err != nil {
			return err
		}
		return w.tree(below, it.key, depth+1)
	}
	w.prev = it.key
	if w.fn != nil {
		if err := w.fn(it); err != nil {
			return err
		}
	}
	if !w.deep || !it.bucket {
		return nil
	}
	below, err := w.im.open(it)
	if err != nil {
		return err
	}
	inner := &walk{im: w.im, deep: true, used: w.used}
	if n.id == 0 {
		return damaged("a bucket is nested inside an inline bucket, which can hold none")
	}
	return inner.tree(below, nil, 0)
}

// mark records that a page and its overflow pages are in use.
func (w *walk) mark(n *node) error {
	if w.used == nil || n.id == 0 {
		return nil
	}
	for id := n.id; id <= n.id+uint64(n.overflow); id++ {
		if err := w.use(id); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) use(id uint64) error {
	if w.used[id/64]&(1<<(id%64)) != 0 {
		return damaged("page %d is used twice, or is used although the free list names it", id)
	}
	w.used[id/64] |= 1 << (id % 64)
	return nil
}

// freelist checks the list of free pages against the pages in use.
func (w *walk) freelist() error {
	n, ids, err := w.im.freelist()
	if err != nil {
		return err
	}
	if err := w.mark(n); err != nil {
		return err
	}
	for ; len(ids) > 0; ids = ids[8:] {
		id := native.Uint64(ids)
		if id < 2 || id >= w.im.high {
			return damaged("the free list names page %d, but the file has %d pages", id, w.im.high)
		}
		if err := w.use(id); err != nil {
			return err
		}
	}
	return nil
}

// freelist is the node of the free list, and the ids in it, 8 bytes each.
func (im *image) freelist() (*node, []byte, error) {
	n, err := im.load(im.free)
	if err != nil {
		return nil, nil, err
	}
	if n.flags != flagFreelist {
		return nil, nil, damaged("page %d is not the free list the meta page says it is", n.id)
	}
	off, count := int64(pageHeader), uint64(n.count)
	if count == 0xFFFF { // then the first entry is the count
		b, err := n.read(off, 8)
		if err != nil {
			return nil, nil, err
		}
		off, count = off+8, native.Uint64(b)
	}
	if count > uint64(n.bytes-off)/8 {
		return nil, nil, damaged("the free list says it has %d entries, more than fit", count)
	}
	ids, err := n.read(off, int64(count)*8)
	return n, ids, err
}

// each calls fn for every item of a bucket, in order of keys.
func (im *image) each(bucket []byte, fn func(item) error) error {
	it, ok, err := im.lookup(bucket)
	if err != nil {
		return err
	}
	if !ok {
		return damaged("bucket %q is missing", bucket)
	}
	n, err := im.open(it)
	if err != nil {
		return err
	}
	return (&walk{im: im, fn: fn}).tree(n, nil, 0)
}
