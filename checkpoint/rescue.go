package checkpoint

import "context"

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
