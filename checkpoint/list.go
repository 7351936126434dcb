package checkpoint

import (
	"context"
	"fmt"
)

// List returns the manifests of the checkpoints in order of saving, without their
// tensors, and the checkpoints that could not be read.
func (db *DB) List() ([]Manifest, []Skipped, error) { return db.list(context.Background()) }

func (db *DB) list(ctx context.Context) ([]Manifest, []Skipped, error) {
	im, unlock, err := db.reading()
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	var skipped []Skipped
	if im.note != nil {
		skipped = append(skipped, Skipped{0, im.note})
	}
	ids, lost, err := im.ids()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: list of checkpoints: %w", db.path, err)
	}
	for _, id := range lost {
		skipped = append(skipped, lostCheckpoint(id))
	}
	var ms []Manifest
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		m, err := im.manifest(id, false)
		if err != nil {
			skipped = append(skipped, Skipped{id, err})
			continue
		}
		ms = append(ms, *m)
	}
	return ms, skipped, nil
}
