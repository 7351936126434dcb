package checkpoint

import (
	"os"
	"sync"

	"go.etcd.io/bbolt"
)

// DB is an open checkpoint file. Its methods may be called from any goroutine;
// saves and other changes run one at a time, and loads run beside them.
type DB struct {
	path string
	opts OpenOptions

	writer sync.Mutex // held while the file is changed; guards the fields up to keep
	bolt   *bbolt.DB  // nil when read-only
	chunks map[Hash]*stored
	head   head
	cached bool // the disk refuses writes past the system's cache
	keep   bool // reclaim no chunks: a damaged checkpoint may need some that nothing else names

	mu     sync.RWMutex // held while reading, exclusively while a transaction commits; guards the fields below
	file   *os.File
	live   bool // the file is not locked: another process may write to it
	im     *image
	broken error // set once bbolt panicked: its locks may be held, so it is not called again
	closed bool
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

// Path is the path that the file was opened at.
func (db *DB) Path() string { return db.path }

// Close waits for a save in progress, unlocks the file and closes it.
func (db *DB) Close() error {
	db.writer.Lock()
	defer db.writer.Unlock()
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil
	}
	db.closed = true
	if !db.opts.ReadOnly {
		removePid(db.path)
	}
	if db.bolt == nil || db.broken != nil {
		// After a panic, bbolt's Close could wait for ever: its mapping stays.
		return release(db.file)
	}
	return db.guard(db.bolt.Close)
}
