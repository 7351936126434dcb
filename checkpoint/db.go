package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/berth-ml/berth/engine/osfile"
	"go.etcd.io/bbolt"
)

// DB is an open checkpoint file. Its methods may be called from any goroutine;
// saves and other changes run one at a time, and loads run at the same time.
type DB struct {
	path string
	opts OpenOptions

	writer sync.Mutex // held while the file is changed; guards the fields up to cached
	bolt   *bbolt.DB  // nil when read-only
	index  index
	cached bool // the disk refuses writes past the system's cache

	mu     sync.RWMutex // held while reading, exclusively while a transaction commits; guards the fields below
	file   *os.File
	live   bool // the file is not locked: another process may write to it. It does not change
	im     *image
	broken error // set once bbolt panicked: its locks may be held, so it is not called again
	closed bool
}

// Path is the path that the file was opened at.
func (db *DB) Path() string { return db.path }

// InPlace is ErrMoved once the path that the file was opened at leads nowhere, or
// to another file: later saves cannot be found there.
func (db *DB) InPlace() error {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.closed || sameFile(db.file, db.path) {
		return nil
	}
	gone, err := osfile.Deleted(db.file)
	if err != nil {
		return err
	}
	if gone {
		return fmt.Errorf("%w: %s was deleted while it was in use, and its checkpoints are lost", ErrMoved, db.path)
	}
	return fmt.Errorf("%w: %s was moved or replaced while it was in use: look for its checkpoints in the file that was moved", ErrMoved, db.path)
}

// view looks at the file as it is now.
func (db *DB) view() error {
	st, err := db.file.Stat()
	if err != nil {
		return err
	}
	im, err := openImage(db.file, st.Size())
	if err != nil {
		return err
	}
	if err := im.checkFormat(); err != nil {
		return err
	}
	db.im = im
	return nil
}

// inspect checks the file before bbolt maps it.
func (db *DB) inspect() error {
	if err := db.view(); err != nil {
		return err
	}
	return db.im.check()
}

// writable is nil if the file can be changed. The caller holds db.writer.
func (db *DB) writable() error {
	db.mu.RLock()
	defer db.mu.RUnlock()
	switch {
	case db.closed:
		return fmt.Errorf("%s: %w", db.path, ErrClosed)
	case db.opts.ReadOnly:
		return fmt.Errorf("%s: %w", db.path, ErrReadOnly)
	case db.broken != nil:
		return fmt.Errorf("%s: %w", db.path, db.broken)
	}
	if err := db.cutShort(); err != nil {
		return fmt.Errorf("%s: %w", db.path, err)
	}
	return nil
}

// update runs a write transaction; readers wait while it commits.
func (db *DB) update(f func(*bbolt.Tx) error) error { return db.commit(f, false) }

// commit is update. With past, the writes go past the system's cache where the
// system allows it. Large values are written twice as fast so: they are not
// copied once more, and the disk works from the first byte on. f may run twice.
func (db *DB) commit(f func(*bbolt.Tx) error, past bool) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return ErrClosed
	}
	if err := db.cutShort(); err != nil {
		db.broken = err
		return err
	}
	run := func() error { return db.guard(func() error { return db.bolt.Update(f) }) }
	past = past && !db.cached && setDirect(db.file, true)
	err := run()
	if past {
		setDirect(db.file, false)
		if errors.Is(err, syscall.EINVAL) { // the disk wants more alignment than bbolt's memory has
			db.cached = true
			err = run()
		}
	}
	if err != nil {
		return withErrno(err)
	}
	return db.view()
}

// guard runs f, which calls bbolt, and turns a panic or a fault in bbolt's
// mapping into an error. After that bbolt is not called again: its locks may be
// held.
func (db *DB) guard(f func() error) (err error) {
	if db.broken != nil {
		return db.broken
	}
	faults := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(faults)
		if p := recover(); p != nil {
			if err = db.cutShort(); err == nil {
				err = damaged("the database library bbolt panicked: %v: open the file again", p)
			}
			db.broken = err
		}
	}()
	return f()
}

// cutShort is an error if the file is shorter than after our last write: bbolt
// would read and write beyond its end.
func (db *DB) cutShort() error {
	if db.im == nil {
		return nil
	}
	st, err := db.file.Stat()
	if err != nil || st.Size() >= db.im.size {
		return err
	}
	return damaged("the file was cut from %d bytes to %d while it was in use: the contents beyond are lost", db.im.size, st.Size())
}

func putFormat(tx *bbolt.Tx, format int) error {
	payload, err := json.Marshal(formatRecord{format})
	if err != nil {
		return err
	}
	return tx.Bucket(bucketBerth).Put(keyFormat, seal(bucketBerth, keyFormat, payload))
}

func putHead(tx *bbolt.Tx, h head) error {
	payload, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return tx.Bucket(bucketBerth).Put(keyHead, seal(bucketBerth, keyHead, payload))
}
