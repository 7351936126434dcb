package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
	"go.etcd.io/bbolt"
)

// OpenOptions says how to open a file. The zero value suits training.
type OpenOptions struct {
	ReadOnly   bool          // share the file with other readers; it must exist
	Beside     bool          // for reading: where another process writes to the file, read it without the lock, as it is at each moment. Checkpoints can then be deleted while they are read: ErrDeleted
	Existing   bool          // for writing: the file must exist and have been used, or the error is ErrNotFound and it stays as it is
	ChunkBytes int           // size of new chunks, a multiple of 8; 0: 4 MiB
	TxBytes    int           // most contents in one transaction; a save holds up to three times as much in memory; 0: 64 MiB
	Compress   bool          // compress chunks with zstd where that makes them smaller; the file has FormatPacked from the first save on
	Timeout    time.Duration // longest wait for another process to close the file; 0: none
	Readers    time.Duration // the same, for writing, where the other process only reads; the longer of the two counts
}

// Open opens a file, and creates it where there is none unless o is read-only or
// asks for an existing one. For writing, it refuses a link, checks the whole
// structure of the file first, and removes the leftovers of interrupted saves
// and compactions.
//
// The error ErrHeld names the process that has the file open, unless o.Beside allows
// reading all the same. A file with ErrDamaged can still be opened read-only, and be
// salvaged: see [Salvage].
func Open(path string, o OpenOptions) (*DB, error) {
	if o.ChunkBytes < 0 || o.ChunkBytes > maxChunk || o.ChunkBytes%8 != 0 {
		return nil, fmt.Errorf("checkpoint options: ChunkBytes is %d: it must be 0 to %d, and a multiple of 8 so that no element is cut", o.ChunkBytes, maxChunk)
	}
	if o.TxBytes < 0 {
		return nil, fmt.Errorf("checkpoint options: TxBytes is %d: it must be 0 or more", o.TxBytes)
	}
	if o.ChunkBytes == 0 {
		o.ChunkBytes = defaultCut
	}
	if o.TxBytes == 0 {
		o.TxBytes = 64 << 20
	}
	o.TxBytes = max(o.TxBytes, o.ChunkBytes)
	_, before := os.Lstat(path)
	f, err := openLocked(path, o)
	if o.ReadOnly && o.Beside && errors.Is(err, ErrHeld) {
		return openLive(path)
	}
	if err != nil {
		return nil, err
	}
	db := &DB{path: path, opts: o, file: f}
	if o.ReadOnly {
		err = db.look()
	} else {
		osfile.LeavePid(path)
		sweep(path)
		err = db.openBolt()
	}
	if err != nil {
		if errors.Is(before, fs.ErrNotExist) {
			removeUnused(path)
		}
		db.Close()
		return nil, fmt.Errorf("%s: %w%s", path, err, openHint(err, o.ReadOnly))
	}
	return db, nil
}

// removeUnused removes a file that Open could not make whole, as on a full disk. It
// stays if somebody else has used it meanwhile.
func removeUnused(path string) {
	f, err := osfile.Open(path, os.O_RDONLY)
	if err != nil {
		return
	}
	if fresh, err := neverUsed(f); fresh && err == nil {
		_ = os.Remove(path) // or it stays, unused
	}
	f.Close()
}

func openHint(err error, readOnly bool) string {
	if errors.Is(err, ErrDamaged) && !readOnly {
		return ": open it read-only and copy the whole checkpoints into a new file"
	}
	return ""
}

// look is view for files that are only read: a file whose creation was cut
// short counts as unused, not as damaged.
func (db *DB) look() error {
	err := db.view()
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	if fresh, e := neverUsed(db.file); fresh && e == nil {
		return errUnused
	}
	return err
}

// openBolt prepares the locked file for writing.
func (db *DB) openBolt() error {
	fresh, err := neverUsed(db.file)
	if err != nil {
		return err
	}
	if fresh && db.opts.Existing {
		return errUnused
	}
	if fresh {
		if err := db.file.Truncate(0); err != nil {
			return err
		}
	} else if err := db.inspect(); err != nil {
		return err
	}
	err = db.guard(func() (err error) {
		db.bolt, err = bbolt.Open(db.path, 0o666, &bbolt.Options{
			FreelistType: bbolt.FreelistMapType,
			NoStatistics: true,
			OpenFile:     func(string, int, os.FileMode) (*os.File, error) { return db.file, nil },
			// Address space to grow into: when bbolt must map the file anew
			// within a transaction, it first copies all that the transaction holds.
			InitialMmapSize: mapAhead(),
		})
		if err == nil {
			db.bolt.AllocSize = growBy
		}
		return err
	})
	if errors.Is(err, syscall.ENOMEM) {
		err = osfile.Advise(fmt.Errorf("mapping the file: %w: the process has no address space left", err), "raise its limit (ulimit -v), or lower devices.memory")
	}
	if err != nil {
		return err
	}
	if fresh {
		if err := db.create(); err != nil {
			return err
		}
	}
	if err := db.reindex(); err != nil {
		return err
	}
	return db.reclaim()
}

// growBy is how many bytes the file grows by beyond what it needs.
const growBy = 256 << 10

// create makes the buckets of a new file.
func (db *DB) create() error {
	db.index.head = head{Next: 1}
	err := db.update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketBerth, bucketManifests, bucketTensors, bucketChunks} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		if err := putFormat(tx, Format); err != nil {
			return err
		}
		return putHead(tx, db.index.head)
	})
	if err != nil {
		return err
	}
	return osfile.SyncDir(filepath.Dir(db.path))
}

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
		osfile.RemovePid(db.path)
	}
	if db.bolt == nil || db.broken != nil {
		// After a panic, bbolt's Close could wait for ever: its mapping stays.
		return release(db.file)
	}
	return db.guard(db.bolt.Close)
}
