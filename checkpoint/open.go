package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/berth-ml/berth/engine/osfile"
)

// OpenOptions says how to open a file. The zero value is right for training.
type OpenOptions struct {
	ReadOnly   bool          // many may read at a time; the file must exist
	ChunkBytes int           // chunk size of what is saved, a multiple of 8; 0: 4 MiB
	TxBytes    int           // most contents in one transaction; a save holds up to three times this in memory; 0: 64 MiB
	Compress   bool          // with zstd, chunks that this makes smaller; the file is of FormatPacked from the first save on
	Timeout    time.Duration // how long to wait for another process to let go; 0: not at all
	Readers    time.Duration // how long to wait, for writing, for processes that only read, if that is longer
}

// Open opens the file, creating it when it is not there and o is not
// read-only. Opened for writing, the whole structure of the file is checked
// first and what an interrupted save or compaction left is removed. ErrHeld names the
// process that has the file open; ErrDamaged leaves the way of opening it
// read-only and of [Salvage].
func Open(path string, o OpenOptions) (*DB, error) {
	if o.ChunkBytes < 0 || o.ChunkBytes > maxChunk || o.ChunkBytes%8 != 0 || o.TxBytes < 0 {
		return nil, fmt.Errorf("checkpoint options: chunk size %d must be in 0..%d and a multiple of 8, so that it cuts no element; transaction size %d not negative", o.ChunkBytes, maxChunk, o.TxBytes)
	}
	if o.ChunkBytes == 0 {
		o.ChunkBytes = defaultCut
	}
	if o.TxBytes == 0 {
		o.TxBytes = 64 << 20
	}
	o.TxBytes = max(o.TxBytes, o.ChunkBytes)
	f, err := openLocked(path, o)
	if err != nil {
		return nil, err
	}
	db := &DB{path: path, opts: o, file: f}
	if o.ReadOnly {
		err = db.look()
	} else {
		writePid(path)
		sweep(path)
		err = db.openBolt()
	}
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("%s: %w%s", path, err, openHint(err, o.ReadOnly))
	}
	return db, nil
}

func openHint(err error, readOnly bool) string {
	if errors.Is(err, ErrDamaged) && !readOnly {
		return ": open it read-only and copy what is whole into a new file"
	}
	return ""
}

// look is view for reading alone: a file whose creation was cut short is not
// damaged, as it is not for writing.
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
	if fresh {
		if err := db.file.Truncate(0); err != nil {
			return err
		}
	} else if err := db.inspect(); err != nil {
		return err
	}
	err = db.guard(func() (err error) {
		db.bolt, err = bbolt.Open(db.path, 0o644, &bbolt.Options{
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

// inspect checks the file before bbolt maps it.
func (db *DB) inspect() error {
	if err := db.view(); err != nil {
		return err
	}
	return db.im.check()
}

// mapAhead is how many bytes of addresses bbolt maps at once. None where an int
// has 32 bits, nor on Windows, where bbolt enlarges the file to what it maps.
func mapAhead() int {
	if strconv.IntSize == 32 || runtime.GOOS == "windows" {
		return 0
	}
	ahead := int64(8) << 30
	return int(ahead)
}

// growBy is how many bytes the file grows by beyond what it needs.
const growBy = 256 << 10

// create makes the buckets of a new file.
func (db *DB) create() error {
	db.head = head{Next: 1}
	err := db.update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketBerth, bucketManifests, bucketTensors, bucketChunks} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		if err := putFormat(tx, Format); err != nil {
			return err
		}
		return putHead(tx, db.head)
	})
	if err != nil {
		return err
	}
	return osfile.SyncDir(filepath.Dir(db.path))
}
