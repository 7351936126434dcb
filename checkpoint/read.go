package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
)

// modest is a size of chunks that is believed of a small file: compressed, they
// may be larger than it.
const modest = 2 * defaultCut

// The reading side of an image: records and chunks.

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

func (im *image) readHead() (head, error) {
	var h head
	payload, err := im.record(bucketBerth, keyHead)
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(payload, &h); err != nil {
		return head{}, damaged("head: %w", err)
	}
	return h, nil
}

// ids lists the checkpoints there are, and those that the head names and that
// are not there, both ascending.
func (im *image) ids() (ids, lost []uint64, err error) {
	err = im.each(bucketManifests, func(it item) error {
		if len(it.key) == 8 {
			ids = append(ids, binary.BigEndian.Uint64(it.key))
		} else {
			lost = append(lost, 0)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	h, err := im.readHead()
	if err != nil {
		return ids, append(lost, 0), nil // the head is damaged: something may be lost
	}
	for _, id := range h.IDs {
		if !slices.Contains(ids, id) {
			lost = append(lost, id)
		}
	}
	return ids, lost, nil
}

// manifest reads a checkpoint's manifest, and with full its tensors, and checks
// that the one belongs to the other.
func (im *image) manifest(id uint64, full bool) (*Manifest, error) {
	payload, err := im.record(bucketManifests, idKey(id))
	if err != nil {
		return nil, err
	}
	m, sum, err := decodeManifest(payload)
	if err != nil {
		return nil, err
	}
	if m.ID != id {
		return nil, damaged("the manifest is of checkpoint %d", m.ID)
	}
	if !full {
		return m, nil
	}
	table, err := im.record(bucketTensors, idKey(id))
	if err != nil {
		return nil, err
	}
	if hashOf(table) != sum {
		return nil, damaged("the tensor table is not the one the manifest names")
	}
	if _, m.Tensors, err = decodeTable(table); err != nil {
		return nil, err
	}
	for _, t := range m.Tensors {
		for k, c := range t.Chunks {
			if int64(c.Size) > max(im.size, modest) { // so that nobody makes room for it
				return nil, damaged("tensor %q: chunk %d has %d bytes, more than the file", t.Name, k, c.Size)
			}
		}
	}
	return m, nil
}

// contents is the item that holds the contents of a chunk, and whether they
// are compressed.
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

// chunk reads the contents of a chunk into dst, which has its size.
func (im *image) chunk(h Hash, dst []byte) error {
	it, ok, err := im.lookup(bucketChunks, h[:])
	if err != nil {
		return err
	}
	if !ok {
		return damaged("the chunk is missing")
	}
	c, packed, err := im.contents(it)
	switch {
	case err != nil:
		return err
	case packed:
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

// unpackInto reads compressed contents. They are smaller than what they
// become, or they would not have been compressed.
func (im *image) unpackInto(dst []byte, c item) error {
	if c.size >= int64(len(dst)) {
		return damaged("the chunk has %d bytes compressed, and %d otherwise", c.size, len(dst))
	}
	b := make([]byte, c.size)
	if _, err := im.r.ReadAt(b, c.at); err != nil {
		return damaged("%w", err)
	}
	return unpack(dst, b)
}
