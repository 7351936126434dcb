package checkpoint

import (
	"fmt"
	"os"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/berth-ml/berth/engine/osfile"
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
	live   bool // the file is not locked: another process may write to it. It does not change
	im     *image
	broken error // set once bbolt panicked: its locks may be held, so it is not called again
	closed bool
}

// stored is a chunk in the file.
type stored struct {
	size int  // bytes of the contents; -1: unknown, as they are missing, or compressed and not read yet
	refs int  // uses by tensors and second copies
	good bool // written, or read and found whole, since the file was opened
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
