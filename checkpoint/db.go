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

	writer sync.Mutex // held by whoever changes the file; guards the four below
	bolt   *bbolt.DB  // nil when read-only
	chunks map[Hash]*stored
	head   head
	cached bool // the disk does not take writes past the cache
	keep   bool // a damaged checkpoint may need chunks that nothing else names: reclaim none

	mu     sync.RWMutex // held while reading, and exclusively while a transaction commits; guards the rest
	file   *os.File
	live   bool // it is not locked: another process may be writing to it
	im     *image
	broken error // set when bbolt panicked: its locks may be held, so it is not called again
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

// Path is where the file is.
func (db *DB) Path() string { return db.path }

// Close waits for a save in progress and lets go of the file.
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
		// After a panic bbolt's Close could wait for ever; the mapping is
		// given up.
		return release(db.file)
	}
	return db.guard(db.bolt.Close)
}
