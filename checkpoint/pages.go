package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// This file reads bbolt's pages without bbolt, which trusts its memory mapping and
// panics or faults where a file is damaged. The layout is that of bbolt's
// internal/common, version 2; numbers are in the machine's byte order.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader = 16 // id u64, flags u16, count u16, overflow u32
	elemBytes  = 16 // leaf: flags, pos, ksize, vsize u32; branch: pos, ksize u32, page u64
	metaBytes  = 64

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10

	maxDepth = 24   // a tree this deep has more pages than a file
	maxKey   = 1024 // ours have at most 16 bytes
)

var native = binary.NativeEndian

// image is the state of a file after one committed transaction, read without bbolt. An open DB has
// the newest one; a reader of a file that a run writes makes one for each look at the file.
type image struct {
	r    io.ReaderAt
	size int64 // bytes in the file
	page int64 // bytes of a page
	metaPage
	format int    // format version of the file; set by checkFormat
	note   error  // set if one of the two meta pages is damaged
	found  *found // results of a scan of the whole file; nil: it was not scanned
}

// metaPage says where the parts of an image are. A file has two: each transaction writes the older.
type metaPage struct {
	root, free uint64 // pages of the root bucket and the free list
	high, txid uint64 // number of pages, of the transaction
}

// openImage reads the meta pages and takes the newer valid one, as bbolt does.
func openImage(r io.ReaderAt, size int64) (*image, error) {
	im := &image{r: r, size: size}
	// The second meta page is one page in. The first says how long a page is; where it is
	// damaged, each size is tried until the page there agrees.
	m0, page, err0 := readMeta(r, size, 0)
	var m1 metaPage
	var err1 error
	if err0 == nil {
		im.page = page
		var p1 int64
		if m1, p1, err1 = readMeta(r, size, page); err1 == nil && p1 != page {
			err1 = damaged("meta pages disagree on the page size: %d and %d", page, p1)
		}
	} else {
		for page = 1024; page <= 1<<20; page *= 2 {
			if m1, im.page, err1 = readMeta(r, size, page); err1 == nil && im.page == page {
				break
			}
			err1 = errors.Join(err1, damaged("no second meta page"))
		}
	}
	switch {
	case err0 != nil && err1 != nil:
		return nil, damaged("neither meta page is valid (%w): the file is not a checkpoint file, or its start is lost", err0)
	case err0 != nil:
		im.metaPage, im.note = m1, fmt.Errorf("meta page 0: %w: the file is read as meta page 1 describes it, and what only page 0 recorded is not used", err0)
	case err1 != nil:
		im.metaPage, im.note = m0, fmt.Errorf("meta page 1: %w: the file is read as meta page 0 describes it, and what only page 1 recorded is not used", err1)
	case m1.txid > m0.txid:
		im.metaPage = m1
	default:
		im.metaPage = m0
	}
	return im, nil
}

func readMeta(r io.ReaderAt, size, at int64) (metaPage, int64, error) {
	var b [pageHeader + metaBytes]byte
	if at+int64(len(b)) > size {
		return metaPage{}, 0, damaged("the file ends at byte %d, before this page", size)
	}
	if _, err := r.ReadAt(b[:], at); err != nil {
		return metaPage{}, 0, damaged("%w", err)
	}
	m := b[pageHeader:]
	h := fnv.New64a()
	h.Write(m[:56])
	switch {
	case native.Uint32(m) != boltMagic:
		return metaPage{}, 0, damaged("no bbolt magic number")
	case native.Uint32(m[4:]) != boltVersion:
		return metaPage{}, 0, damaged("bbolt version %d, not %d", native.Uint32(m[4:]), boltVersion)
	case native.Uint64(m[56:]) != h.Sum64():
		return metaPage{}, 0, damaged("checksum does not match")
	}
	page := int64(native.Uint32(m[8:]))
	if page < 1024 || page > 1<<20 || page&(page-1) != 0 {
		return metaPage{}, 0, damaged("it states the invalid page size %d", page)
	}
	return metaPage{root: native.Uint64(m[16:]), free: native.Uint64(m[32:]), high: native.Uint64(m[40:]), txid: native.Uint64(m[48:])}, page, nil
}

// node is one page of a tree: a page of the file with its overflow, or the
// page inside the value of a small bucket. Who loads it owns it.
type node struct {
	im       *image
	id       uint64 // 0: inside a bucket's value
	at       int64  // offset in the file
	bytes    int64  // size, with its overflow pages
	flags    uint16
	count    int
	overflow uint32
	buf      []byte // the first bytes
}

// load reads a page's header and elements, and checks that the page can be one of
// this file.
func (im *image) load(id uint64) (*node, error) {
	if id < 2 || id >= im.high || int64(id) >= im.size/im.page {
		return nil, damaged("page %d is not in the file (%d pages, %d bytes)", id, im.high, im.size)
	}
	n := &node{im: im, id: id, at: int64(id) * im.page, bytes: im.page}
	n.buf = make([]byte, im.page)
	if _, err := im.r.ReadAt(n.buf, n.at); err != nil {
		return nil, damaged("page %d: %w", id, err)
	}
	if got := native.Uint64(n.buf); got != id {
		return nil, damaged("page %d says it is page %d", id, got)
	}
	if err := n.header(); err != nil {
		return nil, err
	}
	n.bytes = (int64(n.overflow) + 1) * im.page
	if id+uint64(n.overflow) >= im.high || n.at+n.bytes > im.size {
		return nil, damaged("page %d with %d overflow pages runs past the end (%d pages, %d bytes)", id, n.overflow, im.high, im.size)
	}
	return n, n.readTable()
}

// inline is the page inside the value of a small bucket, after the bucket's root
// and sequence number.
func (im *image) inline(it item) (*node, error) {
	at, size := it.at+16, it.size-16
	if size < pageHeader {
		return nil, damaged("bucket at byte %d has no page", at)
	}
	b, err := im.start(it, 16+min(size, im.page))
	if err != nil {
		return nil, damaged("bucket at byte %d: %w", at, err)
	}
	n := &node{im: im, at: at, bytes: size, buf: b[16:]}
	if err := n.header(); err != nil {
		return nil, err
	}
	if n.flags != flagLeaf {
		return nil, damaged("bucket at byte %d is not a leaf", at)
	}
	return n, n.readTable()
}

func (n *node) header() error {
	n.flags = native.Uint16(n.buf[8:])
	n.count = int(native.Uint16(n.buf[10:]))
	n.overflow = native.Uint32(n.buf[12:])
	if n.flags != flagBranch && n.flags != flagLeaf && n.flags != flagFreelist {
		return damaged("page %d has the unknown flags %#x", n.id, n.flags)
	}
	return nil
}

// readTable reads the elements that buf lacks.
func (n *node) readTable() error {
	if n.flags == flagFreelist {
		return nil
	}
	need := n.start()
	if need > n.bytes {
		return damaged("page %d says it has %d elements, more than fit", n.id, n.count)
	}
	if need > int64(len(n.buf)) {
		b, err := n.read(0, need)
		n.buf = b
		return err
	}
	return nil
}

// start is the offset at which keys and values begin.
func (n *node) start() int64 { return pageHeader + elemBytes*int64(n.count) }

// read is size bytes of the page from offset off. Callers have checked the bounds.
func (n *node) read(off, size int64) ([]byte, error) {
	if off+size <= int64(len(n.buf)) {
		return n.buf[off : off+size], nil
	}
	b := make([]byte, size)
	if _, err := n.im.r.ReadAt(b, n.at+off); err != nil {
		return nil, damaged("page %d: %w", n.id, err)
	}
	return b, nil
}

// item is an element of a page: a key, and where its value or the page below is.
type item struct {
	key    []byte
	child  uint64 // branch: the page below
	bucket bool   // leaf: the value is a bucket
	at     int64  // leaf: offset of the value in the file
	size   int64  // leaf: bytes of the value
	begin  int64  // key and value, as offsets in the page
	end    int64
	value  []byte // leaf: the value, if it was read together with the page; else nil
}

func (n *node) item(i int) (item, error) {
	// The elements follow the header. pos is the distance from an element to its key; the
	// value follows the key.
	at := pageHeader + elemBytes*int64(i)
	e := n.buf[at : at+elemBytes]
	var it item
	var pos, ksize, vsize int64
	if n.flags == flagBranch {
		pos, ksize = int64(native.Uint32(e)), int64(native.Uint32(e[4:]))
		it.child = native.Uint64(e[8:])
	} else {
		flags := native.Uint32(e)
		if flags > 1 {
			return it, damaged("page %d element %d has the unknown flags %#x", n.id, i, flags)
		}
		it.bucket = flags == 1
		pos, ksize, vsize = int64(native.Uint32(e[4:])), int64(native.Uint32(e[8:])), int64(native.Uint32(e[12:]))
	}
	it.begin = at + pos
	it.end = it.begin + ksize + vsize
	if ksize < 1 || ksize > maxKey || it.begin < n.start() || it.end > n.bytes {
		return it, damaged("page %d element %d lies outside the page", n.id, i)
	}
	it.at, it.size = n.at+it.begin+ksize, vsize
	if it.end <= int64(len(n.buf)) {
		it.value = n.buf[it.begin+ksize : it.end]
	}
	var err error
	it.key, err = n.read(it.begin, ksize)
	return it, err
}

// open loads the root page of the bucket in an item's value. An item without key
// stands for the file's root bucket.
func (im *image) open(it item) (*node, error) {
	if it.key == nil {
		return im.load(im.root)
	}
	if !it.bucket || it.size < 16 {
		return nil, damaged("%q is not a bucket", it.key)
	}
	b, err := im.start(it, 16)
	if err != nil {
		return nil, damaged("bucket %q: %w", it.key, err)
	}
	if root := native.Uint64(b); root != 0 {
		return im.load(root)
	}
	return im.inline(it)
}

// start is the first n bytes of an item's value, which has that many.
func (im *image) start(it item, n int64) ([]byte, error) {
	if it.value != nil {
		return it.value[:n], nil
	}
	b := make([]byte, n)
	_, err := im.r.ReadAt(b, it.at)
	return b, err
}

// find looks a key up below a page.
func (n *node) find(key []byte) (item, bool, error) {
	for depth := 0; depth < maxDepth; depth++ {
		if n.flags == flagFreelist {
			return item{}, false, damaged("page %d belongs to a tree, but is a free list", n.id)
		}
		if n.count == 0 {
			return item{}, false, nil
		}
		it, err := n.floor(key)
		if err != nil {
			return item{}, false, err
		}
		if n.flags == flagLeaf {
			return it, bytes.Equal(it.key, key), nil
		}
		if n, err = n.im.load(it.child); err != nil {
			return item{}, false, err
		}
	}
	return item{}, false, damaged("page %d: the tree is too deep, or has a cycle", n.id)
}

// floor is the last item of a page whose key is not above key; if there is none,
// the first item. The page must have items.
func (n *node) floor(key []byte) (item, error) {
	lo, hi := 0, n.count // items before lo have keys not above key; items from hi on have keys above it
	for lo < hi {
		mid := (lo + hi) / 2
		it, err := n.item(mid)
		if err != nil {
			return it, err
		}
		if bytes.Compare(it.key, key) > 0 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return n.item(max(lo-1, 0))
}

// lookup finds a path of keys, each but the last a bucket.
func (im *image) lookup(path ...[]byte) (item, bool, error) {
	var it item
	for _, key := range path {
		n, err := im.open(it)
		if err != nil {
			return it, false, err
		}
		var ok bool
		if it, ok, err = n.find(key); err != nil || !ok {
			return it, false, err
		}
	}
	return it, true, nil
}

// value reads an item's value. One that is too large for a record is damage.
func (im *image) value(it item) ([]byte, error) {
	if it.bucket || it.size > maxRecord {
		return nil, damaged("%q is not a record", it.key)
	}
	b, err := im.start(it, it.size)
	if err != nil {
		return nil, damaged("record %q: %w", it.key, err)
	}
	return b, nil
}

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
	// A sector has the bytes that bbolt wrote, or is still zero.
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
		m := b[int(txid)*page+pageHeader:] // page 0 for transaction 0, page 1 for 1
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
