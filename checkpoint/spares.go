package checkpoint

// Second copies are stored as chunks, and so on other pages, which later saves
// do not write again. Nothing but a scan reads them.

// share is the most bytes of contents that bbolt lets share a page with others.
func (im *image) share() int { return int(im.page / 4) }

// spareRecords is a copy of a checkpoint's records.
func (im *image) spareRecords(id uint64, manifest, table []byte) []byte {
	return im.apart(append(seal(bucketManifests, idKey(id), manifest), table...))
}

// apart makes a copy so long that it does not share its page.
func (im *image) apart(b []byte) []byte {
	return append(b, make([]byte, max(0, im.share()+1-len(b)))...)
}

// appendSmall adds to a copy of small contents, in the form they have on a
// page of their own.
func appendSmall(to, data []byte) []byte {
	to = append(to, chunkMark(keyRaw)...)
	to = native.AppendUint32(to, uint32(len(data)))
	return append(append(to, keyRaw...), data...)
}

// chunkMark is what bbolt has before the size of a chunk's contents, which are the
// only element of a page: the place of the key, and its size. After the size,
// there are the key and the contents.
func chunkMark(key []byte) []byte {
	return native.AppendUint32(native.AppendUint32(nil, elemBytes), uint32(len(key)))
}
