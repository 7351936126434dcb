package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// This file finds records and chunks that no page leads to, anywhere in a file, by
// the bytes that they begin with. bbolt's own numbers are not trusted; a record
// or chunk is used only if its checksum or hash confirms it.

// scan is one search through a file. image.rescue and Foreign make it; what it found outlives it.
type scan struct {
	found
	ctx        context.Context
	r          io.ReaderAt
	size       int64
	left       int64    // read budget: bytes that may be read beyond the first pass
	window     []byte   // the part of the file that was read last,
	windowAt   int64    // and its offset
	candidates []extent // possible chunks
}

const (
	scanWindow = 1 << 20
	scanAgain  = 16 // read budget, as a multiple of the file's size: a hostile file has marks everywhere
	leastChunk = 32 // bytes of the file for each candidate; a chunk with its page takes at least twice as many
)

// found lists the records and chunks that a scan came upon. The image of the file owns it, and
// reads them where its pages do not lead to them.
type found struct {
	manifests map[uint64][]byte // id → payload
	heads     []head
	tables    map[Hash]extent
	chunks    map[Hash]extent
}

// extent is a range of bytes in a file that may be contents.
type extent struct {
	at, size int64
	packed   bool // the compressed contents of a chunk
}

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

// newScan reads a file once and notes its records and possible chunks.
func newScan(ctx context.Context, r io.ReaderAt, size int64) (*scan, error) {
	s := &scan{ctx: ctx, r: r, size: size, left: scanAgain * size,
		found: found{manifests: map[uint64][]byte{}, tables: map[Hash]extent{}, chunks: map[Hash]extent{}}}
	// Each part overlaps the next by a margin, so that a mark across both is met. It begins in
	// the first, and is noted once.
	const margin = 16
	buf := make([]byte, min(scanWindow, size)+margin)
	for at := int64(0); at < size; at += scanWindow {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// A part that cannot be read is passed over.
		n, _ := r.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		s.window, s.windowAt = buf[:n], at
		s.search(buf[:n], at)
	}
	slices.SortFunc(s.candidates, func(a, b extent) int { return cmp.Compare(a.at, b.at) })
	s.candidates = slices.Compact(s.candidates)
	return s, nil
}

// search looks for marks that begin in the first scanWindow bytes of b, which is
// at offset at of the file.
func (s *scan) search(b []byte, at int64) {
	each := func(mark []byte, fn func(at int64)) {
		part := b[:min(len(b), scanWindow+len(mark)-1)]
		for off := 0; ; off++ {
			i := bytes.Index(part[off:], mark)
			if i < 0 {
				return
			}
			off += i
			fn(at + int64(off))
		}
	}
	// A record is its checksum and then JSON, which begins as below. Contents are a chunkMark of
	// 8 bytes, their size in 4 bytes, their key, and the bytes themselves: the key leads to
	// them, and the mark where the key is damaged.
	each([]byte(`{"format":`), s.manifest)
	each([]byte(`{"next":`), s.head)
	each([]byte(`{"chunk":`), s.table)
	for _, key := range [][]byte{keyRaw, keyZstd} {
		packed, n := bytes.Equal(key, keyZstd), int64(len(key))
		each(key, func(at int64) { s.candidate(at-4, at+n, packed) })
		each(chunkMark(key), func(at int64) { s.candidate(at+8, at+12+n, packed) })
	}
}

// bytes reads n bytes. It is nil past the end of the file or once the read budget
// is spent.
func (s *scan) bytes(at, n int64) []byte {
	if at < 0 || n < 0 || at+n > s.size || n > s.left {
		return nil
	}
	s.left -= n
	if from := at - s.windowAt; from >= 0 && from+n <= int64(len(s.window)) {
		return bytes.Clone(s.window[from : from+n])
	}
	b := make([]byte, n)
	if _, err := s.r.ReadAt(b, at); err != nil {
		return nil
	}
	return b
}

// metered reads from at up to end, within the scan's read budget.
type metered struct {
	s       *scan
	at, end int64
}

func (r *metered) Read(p []byte) (int, error) {
	if err := r.s.ctx.Err(); err != nil {
		return 0, err
	}
	n := min(int64(len(p)), r.end-r.at, r.s.left)
	if n <= 0 {
		return 0, io.EOF
	}
	k, err := r.s.r.ReadAt(p[:n], r.at)
	r.at += int64(k)
	r.s.left -= int64(k)
	return k, err
}

// value is the JSON value that begins at offset at; nil if there is none. Every
// record has a second copy, so it takes at most half of a file. With that limit
// the decoder allocates no more than the file's size.
func (s *scan) value(at int64) []byte {
	var raw json.RawMessage
	end := min(s.size, at+min(max(s.size/2, scanWindow), maxRecord))
	if err := json.NewDecoder(&metered{s, at, end}).Decode(&raw); err != nil {
		return nil
	}
	return raw
}

// sealed reports whether the payload at offset at has its checksum before it.
func (s *scan) sealed(at int64, bucket, key, payload []byte) bool {
	sum := s.bytes(at-sumBytes, sumBytes)
	return sum != nil && Hash(sum) == recordSum(bucket, key, payload)
}

// manifest notes a manifest. Of two with the same id, the older one belongs to a
// save that was cut short by a loss of power.
func (s *scan) manifest(at int64) {
	payload := s.value(at)
	var m manifestJSON
	if payload == nil || json.Unmarshal(payload, &m) != nil || !s.sealed(at, bucketManifests, idKey(m.ID), payload) {
		return
	}
	if old, ok := s.manifests[m.ID]; ok {
		var o manifestJSON
		if json.Unmarshal(old, &o) != nil || !m.Time.After(o.Time) {
			return
		}
	}
	s.manifests[m.ID] = payload
}

func (s *scan) head(at int64) {
	payload := s.value(at)
	if payload == nil || !s.sealed(at, bucketBerth, keyHead, payload) {
		return
	}
	if h, err := decodeHead(payload); err == nil {
		s.heads = append(s.heads, h)
	}
}

func (s *scan) table(at int64) {
	if payload := s.value(at); payload != nil {
		s.tables[hashOf(payload)] = extent{at: at, size: int64(len(payload))}
	}
}

// candidate notes the possible contents of a chunk at offset at, with its size
// stored at sizeAt.
func (s *scan) candidate(sizeAt, at int64, packed bool) {
	if b := s.bytes(sizeAt, 4); b != nil && int64(len(s.candidates)) < s.size/leastChunk {
		s.candidates = append(s.candidates, extent{at, int64(native.Uint32(b)), packed})
	}
}

// resolve finds the contents of chunks among the candidates; wanted has their
// sizes.
func (s *scan) resolve(wanted map[Hash]int64) error {
	sizes := map[int64]bool{}
	for _, n := range wanted {
		sizes[n] = true
	}
	var rest []extent
	for _, c := range s.candidates {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if !s.try(c, sizes, wanted) && !c.packed {
			rest = append(rest, c)
		}
	}
	sizes = map[int64]bool{}
	for h, n := range wanted {
		if _, ok := s.chunks[h]; !ok {
			sizes[n] = true
		}
	}
	// The stored size may be damaged: try the sizes of the chunks still missing.
	for _, n := range slices.Sorted(maps.Keys(sizes)) {
		for _, c := range rest {
			if err := s.ctx.Err(); err != nil {
				return err
			}
			s.try(extent{at: c.at, size: n}, sizes, wanted)
		}
	}
	return nil
}

// try reports whether a candidate is a wanted chunk.
func (s *scan) try(c extent, sizes map[int64]bool, wanted map[Hash]int64) bool {
	if !c.packed && !sizes[c.size] {
		return false
	}
	data := s.bytes(c.at, c.size)
	if c.packed && data != nil {
		data = unpackAny(data, sizes)
	}
	if data == nil {
		return false
	}
	h := hashOf(data)
	if _, ok := wanted[h]; !ok {
		return false
	}
	s.chunks[h] = c
	return true
}

// unpackAny is the contents of a compressed frame; nil if the frame does not state
// one of the sizes.
func unpackAny(frame []byte, sizes map[int64]bool) []byte {
	var h zstd.Header
	if err := h.Decode(frame); err != nil || !h.HasFCS || h.FrameContentSize > maxChunk || !sizes[int64(h.FrameContentSize)] {
		return nil
	}
	data := make([]byte, h.FrameContentSize)
	if unpack(data, frame) != nil {
		return nil
	}
	return data
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
