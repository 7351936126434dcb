package checkpoint

import (
	"context"
	"fmt"
)

// List returns the manifests of the checkpoints in order of saving, without their
// tensors, and the checkpoints that could not be read.
func (db *DB) List() ([]Manifest, []Skipped, error) { return db.list(context.Background()) }

func (db *DB) list(ctx context.Context) (ms []Manifest, skipped []Skipped, err error) {
	look := func(im *image) error {
		ms, skipped, err = db.listOf(ctx, im)
		return err
	}
	if db.live {
		err = db.steady(look)
	} else {
		err = db.read(look)
	}
	if err != nil {
		return nil, nil, err
	}
	return ms, skipped, nil
}

// listOf is list of one state of the file.
func (db *DB) listOf(ctx context.Context, im *image) ([]Manifest, []Skipped, error) {
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
