package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
)

const (
	followFor  = 2 * time.Second      // longest that reading is tried again while the file changes
	followEach = 2 * time.Millisecond // pause between attempts
	metaTries  = 10                   // attempts to find a valid meta page; only one of the two is written at a time
)

// openLive opens a file for reading without its lock.
func openLive(path string) (*DB, error) {
	f, err := osfile.Open(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint file: %w", err)
	}
	db := &DB{path: path, opts: OpenOptions{ReadOnly: true}, file: f, live: true}
	if fresh, e := neverUsed(f); fresh && e == nil {
		err = errUnused
	} else {
		err = db.follow(func(*image) error { return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Join(err, db.Close()))
	}
	return db, nil
}

// Beside reports whether another process had the file open for writing when it was opened: it is read without its lock.
func (db *DB) Beside() bool { return db.live }

// reading takes the lock for reading, and returns the state to read and the unlock.
func (db *DB) reading() (*image, func(), error) {
	db.mu.RLock()
	if db.closed || db.im == nil {
		db.mu.RUnlock()
		return nil, nil, fmt.Errorf("%s: %w", db.path, ErrClosed)
	}
	return db.im, db.mu.RUnlock, nil
}

// now reads the file's meta pages: the newest state.
func (db *DB) now() (*image, error) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.closed {
		return nil, fmt.Errorf("%s: %w", db.path, ErrClosed)
	}
	st, err := db.file.Stat()
	if err != nil {
		return nil, err
	}
	return openImage(db.file, st.Size())
}

// read runs f on the current state of the file.
func (db *DB) read(f func(*image) error) error {
	if db.live {
		return db.follow(f)
	}
	im, unlock, err := db.reading()
	if err != nil {
		return err
	}
	defer unlock()
	return f(im)
}

// follow runs f on the newest state of a file that another process may be
// writing. If f fails and there is a newer state by then, it runs f again on
// that one.
//
// A transaction overwrites only pages that the state before it does not use. So
// while a state is the newest, all its pages are in the file, and an error of f
// is damage. Success needs no such proof where f checks all that it reads
// against checksums: see steady for the rest.
func (db *DB) follow(f func(*image) error) error {
	unread := 0
	for began := time.Now(); ; time.Sleep(followEach) {
		im, err := db.now()
		if errors.Is(err, ErrClosed) {
			return err
		}
		if err != nil || im.note != nil { // a meta page may be half written
			if unread++; unread < metaTries {
				continue
			}
			if err != nil {
				return err
			}
		}
		if err = im.checkFormat(); err == nil {
			err = f(im)
		}
		if err == nil {
			return nil
		}
		if same, e := db.stays(im); same && e == nil {
			return err
		}
		if time.Since(began) > followFor {
			return fmt.Errorf("%w: try again, or stop the process that writes to the file", err)
		}
	}
}

// stays reports whether a state is still the newest.
func (db *DB) stays(im *image) (bool, error) {
	after, err := db.now()
	return err == nil && after.txid == im.txid, err
}

// steady is follow for reads that no checksum confirms. It retries f until the
// file did not change while f read it.
func (db *DB) steady(f func(*image) error) error {
	return db.follow(func(im *image) error {
		if err := f(im); err != nil {
			return err
		}
		if same, err := db.stays(im); err != nil || !same {
			return errors.Join(errChanged, err)
		}
		return nil
	})
}

// deleted reports whether another process has deleted a checkpoint since it was
// loaded.
func (db *DB) deleted(id uint64) bool {
	if !db.live {
		return false
	}
	there := true
	err := db.steady(func(im *image) (err error) {
		_, there, err = im.lookup(bucketManifests, idKey(id))
		return err
	})
	return err == nil && !there
}

// errChanged: the parts that were read may not belong to one state of the file.
var errChanged = errors.New("the file changed while it was read")
