package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
)

const (
	followFor  = 2 * time.Second      // how long a change of the file is waited out
	followEach = 2 * time.Millisecond // pause between attempts
	metaTries  = 10                   // times that neither meta page is found valid, of which only one is written at a time
	copyRounds = 8                    // times that all checkpoints may be deleted under Copy
)

// errMoved says that what was read may be of no one moment.
var errMoved = errors.New("the file changed meanwhile")

// Copy copies the whole checkpoints of a file into a new one at to, under the
// same ids, while another process may be writing to the file: it takes no lock.
// Everything is checked as it is read, so the copy is whole, and it appears as
// a whole or not at all. What is deleted meanwhile is left out; what is damaged
// is left out and handed to report, which may be nil. It returns how many were
// copied: ErrNotFound if there is none to copy, ErrHeld if they are deleted faster than
// they are copied.
func Copy(ctx context.Context, from, to string, report func(Skipped)) (n int, err error) {
	if _, err := os.Lstat(to); err == nil {
		return 0, fmt.Errorf("copy into %s: %w: name a file that does not exist", to, fs.ErrExist)
	}
	src, err := openLive(from)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	tmp := fmt.Sprintf("%s.berth-copy-%d", to, os.Getpid())
	if err := removeMade(tmp); err != nil { // of a process that was killed
		return 0, err
	}
	dst, err := Open(tmp, OpenOptions{Compress: src.im.format >= FormatPacked})
	if err != nil {
		return 0, errors.Join(err, removeMade(tmp))
	}
	if report == nil {
		report = func(Skipped) {}
	}
	n, err = src.copyLive(ctx, dst, report)
	if err == nil {
		err = appear(tmp, to)
	}
	if err = errors.Join(err, removeMade(tmp), dst.Close()); err != nil {
		return 0, err
	}
	return n, osfile.SyncDir(filepath.Dir(to))
}

// openLive opens a file for reading without its lock. One goroutine uses it.
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
		err = db.follow((*image).checkFormat)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Join(err, db.Close()))
	}
	return db, nil
}

// now looks at the file's meta pages.
func (db *DB) now() (*image, error) {
	st, err := db.file.Stat()
	if err != nil {
		return nil, err
	}
	return openImage(db.file, st.Size())
}

// read runs f on the state of the file that is to be read.
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
// writing, again until it succeeds, or fails while that state stays the newest.
// A transaction overwrites only what the one before it had given up, so
// nothing of a state is overwritten before there is a newer one: an error that
// nothing newer explains is the file's. Nor does success come by chance, where f
// checks what it reads against checksums.
func (db *DB) follow(f func(*image) error) error {
	unread := 0
	for began := time.Now(); ; time.Sleep(followEach) {
		im, err := db.now()
		if err != nil {
			if unread++; unread == metaTries {
				return err
			}
			continue
		}
		if db.im != nil {
			im.format = db.im.format
		}
		if err = f(im); err == nil {
			db.im = im
			return nil
		}
		if same, e := db.stays(im); same && e == nil {
			return err
		}
		if time.Since(began) > followFor {
			return fmt.Errorf("%w: try again, or stop who is writing to the file", err)
		}
	}
}

// stays reports whether the state that was read is still the newest.
func (db *DB) stays(im *image) (bool, error) {
	after, err := db.now()
	return err == nil && after.txid == im.txid, err
}

// steady is follow for what no checksum confirms: f is run until all that it
// read is of one moment.
func (db *DB) steady(f func(*image) error) error {
	return db.follow(func(im *image) error {
		if err := f(im); err != nil {
			return err
		}
		if same, err := db.stays(im); err != nil || !same {
			return errors.Join(errMoved, err)
		}
		return nil
	})
}

// copyLive saves the checkpoints into dst that are there now, and if all of
// them are deleted meanwhile, those that are there then.
func (db *DB) copyLive(ctx context.Context, dst *DB, report func(Skipped)) (int, error) {
	damaged := false
	tell := func(s Skipped) {
		damaged = true
		report(s)
	}
	newest, deleted := uint64(0), true
	for range copyRounds {
		var err error
		if newest, deleted, err = db.copyNewer(ctx, dst, newest, tell); err != nil {
			return 0, err
		}
		if n := len(dst.head.IDs); n > 0 {
			return n, nil
		}
		if !deleted {
			break
		}
	}
	switch {
	case deleted:
		return 0, fmt.Errorf("%w: %s: every checkpoint was deleted before it was copied: keep more of them (checkpoint.keep.last), save less often, or stop the run", ErrHeld, db.path)
	case damaged:
		return 0, fmt.Errorf("%s: %w: none of its checkpoints is whole", db.path, ErrDamaged)
	}
	return 0, fmt.Errorf("%s: %w: it holds none yet", db.path, ErrNotFound)
}

// copyNewer copies what is newer than a checkpoint, 0 for all. It returns the
// newest there was, and whether any was deleted meanwhile.
func (db *DB) copyNewer(ctx context.Context, dst *DB, than uint64, tell func(Skipped)) (newest uint64, deleted bool, err error) {
	var ids, lost []uint64
	err = db.steady(func(im *image) (err error) {
		ids, lost, err = im.ids()
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("%s: list of checkpoints: %w", db.path, err)
	}
	for _, id := range lost {
		if than == 0 {
			tell(lostCheckpoint(id))
		}
	}
	newest = than
	for _, id := range ids {
		if id <= than {
			continue
		}
		gone, err := db.copyUnless(ctx, dst, id, tell)
		if err != nil {
			return newest, deleted, err
		}
		newest, deleted = id, deleted || gone
	}
	return newest, deleted, nil
}

// copyUnless copies a checkpoint unless it is deleted meanwhile (gone), or
// damaged, which is reported.
func (db *DB) copyUnless(ctx context.Context, dst *DB, id uint64, report func(Skipped)) (gone bool, err error) {
	err = db.copyOne(ctx, dst, id)
	if err == nil || ctx.Err() != nil {
		return false, err
	}
	if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotFound) {
		return false, err
	}
	there := false
	e := db.steady(func(im *image) (err error) {
		_, there, err = im.lookup(bucketManifests, idKey(id))
		return err
	})
	if e == nil && !there {
		return true, nil
	}
	report(Skipped{id, err})
	return false, nil
}
