package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// modest is a chunk size, in bytes, that is accepted even if the file is smaller:
// compressed chunks may be larger than their file.
const modest = 2 * defaultCut

// record reads and checks a record.
func (im *image) record(bucket, key []byte) ([]byte, error) {
	it, ok, err := im.lookup(bucket, key)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, damaged("record %s/%x is missing", bucket, key)
	}
	b, err := im.value(it)
	if err != nil {
		return nil, err
	}
	return unseal(bucket, key, b)
}

// checkFormat learns the format of the file, and refuses one that this program
// does not know.
func (im *image) checkFormat() error {
	it, ok, err := im.lookup(bucketBerth, keyFormat)
	if err != nil {
		return err
	}
	if !ok {
		return damaged("no format record: this is not a checkpoint file of berth")
	}
	record, err := im.value(it)
	if err != nil {
		return err
	}
	payload, err := unseal(bucketBerth, keyFormat, record)
	if err != nil {
		return err
	}
	var f formatRecord
	if err := json.Unmarshal(payload, &f); err != nil {
		return damaged("format record: %w", err)
	}
	if !knownFormat(f.Format) {
		return fmt.Errorf("%w: the file has format %d, this program reads %d to %d: use a matching version of berth", ErrFormat, f.Format, Format, FormatPacked)
	}
	im.format = f.Format
	return nil
}

func (im *image) readHead() (head, error) {
	var h head
	payload, err := im.record(bucketBerth, keyHead)
	if err == nil {
		h, err = decodeHead(payload)
	}
	if err != nil && im.found != nil {
		if other, ok := im.found.newestHead(); ok {
			return other, nil
		}
	}
	return h, err
}

// ids lists the checkpoints in the file, and the lost ones, which the head names
// and the file lacks. Both ascend. A lost id of 0 is a checkpoint whose id is
// unknown.
func (im *image) ids() (ids, lost []uint64, err error) {
	err = im.each(bucketManifests, func(it item) error {
		if len(it.key) == 8 {
			ids = append(ids, binary.BigEndian.Uint64(it.key))
		} else {
			lost = append(lost, 0)
		}
		return nil
	})
	if err != nil && im.found == nil {
		return nil, nil, err
	}
	h, err := im.readHead()
	if im.found != nil {
		ids = im.found.beside(ids, h, err == nil)
	}
	if err != nil {
		return ids, append(lost, 0), nil // the head is damaged: something may be lost
	}
	for _, id := range h.IDs {
		if _, ok := slices.BinarySearch(ids, id); !ok {
			lost = append(lost, id)
		}
	}
	return ids, lost, nil
}

// manifest reads a checkpoint's manifest. With full it reads the tensor table, too,
// and checks that the two belong together.
func (im *image) manifest(id uint64, full bool) (*Manifest, error) {
	payload, err := im.record(bucketManifests, idKey(id))
	if err != nil && im.rescued(id) {
		payload, err = im.found.manifests[id], nil
	}
	if err != nil {
		return nil, err
	}
	m, to, err := decodeManifest(payload)
	if err != nil {
		return nil, err
	}
	if m.ID != id {
		return nil, damaged("its manifest names another checkpoint, %d", m.ID)
	}
	if !full {
		return m, nil
	}
	table, err := im.table(id, to.table)
	if err != nil {
		return nil, err
	}
	if _, m.Tensors, err = decodeTable(table); err != nil {
		return nil, err
	}
	for _, t := range m.Tensors {
		for k, c := range t.Chunks {
			if int64(c.Size) > max(im.size, modest) { // so that no caller allocates that much
				return nil, damaged("tensor %q: chunk %d has %d bytes, more than the file", t.Name, k, c.Size)
			}
		}
	}
	return m, nil
}

// rescued reports whether a scan found a manifest of that id.
func (im *image) rescued(id uint64) bool { return im.found != nil && im.found.manifests[id] != nil }

// table reads the tensor table that a manifest names.
func (im *image) table(id uint64, sum Hash) ([]byte, error) {
	table, err := im.record(bucketTensors, idKey(id))
	if err == nil && hashOf(table) != sum {
		err = damaged("the tensor table is not the one the manifest names")
	}
	if err == nil || im.found == nil {
		return table, err
	}
	other, ok := im.found.tables[sum]
	if !ok {
		return nil, err
	}
	table = make([]byte, other.size)
	if _, e := im.r.ReadAt(table, other.at); e != nil || hashOf(table) != sum {
		return nil, err
	}
	return table, nil
}

// spares are the hashes of the two chunks that hold second copies: of the records,
// and of small contents (zero if there are none). A file that an earlier version
// of this program wrote may lack them.
func (im *image) spares(id uint64) ([]Hash, error) {
	manifest, err := im.record(bucketManifests, idKey(id))
	if err != nil {
		return nil, err
	}
	table, err := im.record(bucketTensors, idKey(id))
	if err != nil {
		return nil, err
	}
	_, to, err := decodeManifest(manifest)
	return []Hash{hashOf(im.spareRecords(id, manifest, table)), to.small}, err
}

// contents finds the item with the contents of a chunk, and tells whether they are
// compressed.
func (im *image) contents(chunk item) (it item, packed bool, err error) {
	n, err := im.open(chunk)
	if err != nil {
		return item{}, false, err
	}
	for _, key := range [][]byte{keyRaw, keyZstd} {
		it, ok, err := n.find(key)
		if err != nil {
			return item{}, false, err
		}
		if ok && !it.bucket {
			return it, bytes.Equal(key, keyZstd), nil
		}
	}
	return item{}, false, damaged("the chunk has no contents")
}

// chunk reads the contents of a chunk into dst, which must have their size.
func (im *image) chunk(h Hash, dst []byte) error {
	c, err := im.chunkAt(h)
	if err == nil {
		err = im.fill(dst, h, c)
	}
	if err != nil && im.found != nil {
		if other, ok := im.found.chunks[h]; ok && im.fill(dst, h, other) == nil {
			return nil
		}
	}
	return err
}

// chunkAt is the extent of a chunk's contents, as the pages state it.
func (im *image) chunkAt(h Hash) (extent, error) {
	it, ok, err := im.lookup(bucketChunks, h[:])
	if err != nil {
		return extent{}, err
	}
	if !ok {
		return extent{}, damaged("the chunk is missing")
	}
	c, packed, err := im.contents(it)
	return extent{c.at, c.size, packed}, err
}

// fill reads contents from their extent, and checks them.
func (im *image) fill(dst []byte, h Hash, c extent) error {
	switch {
	case c.packed:
		if err := im.unpackInto(dst, c); err != nil {
			return err
		}
	case c.size != int64(len(dst)):
		return damaged("the chunk has %d bytes, not %d", c.size, len(dst))
	default:
		if _, err := im.r.ReadAt(dst, c.at); err != nil {
			return damaged("%w", err)
		}
	}
	if hashOf(dst) != h {
		return damaged("the contents do not match their hash")
	}
	return nil
}

// unpackInto reads and decompresses contents. A chunk is stored compressed only
// if that made it smaller.
func (im *image) unpackInto(dst []byte, c extent) error {
	if c.size >= int64(len(dst)) {
		return damaged("the chunk takes %d bytes compressed, more than the %d bytes that it takes uncompressed", c.size, len(dst))
	}
	b := make([]byte, c.size)
	if _, err := im.r.ReadAt(b, c.at); err != nil {
		return damaged("%w", err)
	}
	return unpack(dst, b)
}

// Any number of goroutines may use both at a time.
var (
	packer = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),    // chunks have a hash
		zstd.WithSingleSegment(true))) // so that every frame states its size
	unpacker = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxChunk)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic("BUG: zstd: " + err.Error())
	}
	return v
}

// pack compresses the contents of a chunk with zstd. It is nil if that saves less
// than a twentieth.
func pack(data []byte) []byte {
	out := packer.EncodeAll(data, make([]byte, 0, len(data)))
	if len(out) > len(data)-len(data)/20 {
		return nil
	}
	return out
}

// unpack decompresses into dst, which must have the size of the contents. A frame
// that states another size is refused, so nothing beyond dst is allocated.
func unpack(dst, packed []byte) error {
	var h zstd.Header
	if err := h.Decode(packed); err != nil {
		return damaged("compressed chunk: %w", err)
	}
	if !h.HasFCS || h.FrameContentSize != uint64(len(dst)) || h.WindowSize > maxChunk {
		return damaged("compressed chunk: it states a size of %d bytes, not %d", h.FrameContentSize, len(dst))
	}
	out, err := unpacker.DecodeAll(packed, dst[:0:len(dst)])
	if err != nil {
		return damaged("compressed chunk: %w", err)
	}
	if len(out) != len(dst) || len(out) > 0 && &out[0] != &dst[0] {
		return damaged("compressed chunk: it has %d bytes, not %d", len(out), len(dst))
	}
	return nil
}
