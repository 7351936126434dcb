package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"syscall"
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

// stored is a chunk in the file.
type stored struct {
	size int  // of the contents; -1: it has none, or they are compressed and not read yet
	refs int  // tensors of checkpoints that use it
	good bool // written, or read back and found whole, since the file was opened
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

func (im *image) checkFormat() error {
	it, ok, err := im.lookup(bucketBerth, keyFormat)
	if err != nil {
		return err
	}
	if !ok {
		return damaged("no format record: this is not a checkpoint file of berth")
	}
	record, err := im.value(it)
	if err != nil {
		return err
	}
	payload, err := unseal(bucketBerth, keyFormat, record)
	if err != nil {
		return err
	}
	var f formatRecord
	if err := json.Unmarshal(payload, &f); err != nil {
		return damaged("format record: %w", err)
	}
	if !knownFormat(f.Format) {
		return fmt.Errorf("%w: the file has format %d, this program reads %d to %d: use a matching version of berth", ErrFormat, f.Format, Format, FormatPacked)
	}
	im.format = f.Format
	return nil
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

// guard runs f, which calls bbolt, and turns a panic or a fault in bbolt's
// mapping into an error. bbolt is not called again after one: it may have
// left its locks held.
func (db *DB) guard(f func() error) (err error) {
	if db.broken != nil {
		return db.broken
	}
	faults := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(faults)
		if p := recover(); p != nil {
			if err = db.cutShort(); err == nil {
				err = damaged("bbolt gave up: %v: the file must be opened again", p)
			}
			db.broken = err
		}
	}()
	return f()
}

// cutShort tells a file that is shorter than its own writes left it: bbolt would
// read, and write, beyond its end.
func (db *DB) cutShort() error {
	if db.im == nil {
		return nil
	}
	st, err := db.file.Stat()
	if err != nil || st.Size() >= db.im.size {
		return err
	}
	return damaged("someone cut the file from %d bytes to %d while it was in use, and what was beyond is lost", db.im.size, st.Size())
}

// update runs one write transaction; readers wait while it commits.
func (db *DB) update(f func(*bbolt.Tx) error) error { return db.commit(f, false) }

// commit is update; with past, where the system allows it, by writes past the
// system's cache. For large values those are twice as fast: nothing is copied
// once more, and the disk works from the first byte on. f may run twice.
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

// writable is nil when changes can be made. The caller holds db.writer.
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

// reindex learns from the file what it holds, and who uses it.
func (db *DB) reindex() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.inspect(); err != nil {
		return err
	}
	db.chunks, db.keep = map[Hash]*stored{}, db.im.note != nil // then a checkpoint that was saved last may be one that nothing leads to
	err := db.im.each(bucketChunks, func(it item) error {
		if len(it.key) != len(Hash{}) {
			db.keep = true // a damaged key: the contents may be what a checkpoint misses
			return nil
		}
		size := -1
		if raw, packed, err := db.im.contents(it); err == nil && !packed {
			size = int(raw.size)
		}
		db.chunks[Hash(it.key)] = &stored{size: size}
		return nil
	})
	if err != nil {
		return err
	}
	ids, lost, err := db.im.ids()
	if err != nil {
		return err
	}
	db.keep = db.keep || len(lost) > 0
	next := uint64(1)
	for _, id := range ids {
		next = id + 1
		if db.countUses(id) != nil {
			db.keep = true
		}
	}
	h, err := db.im.readHead()
	db.keep = db.keep || err != nil
	db.head = head{Next: max(h.Next, next), IDs: ids}
	return nil
}

// countUses counts a checkpoint among who uses its chunks, and its second copies.
func (db *DB) countUses(id uint64) error {
	m, err := db.im.manifest(id, true)
	if err != nil {
		return err
	}
	spares, err := db.im.spares(id)
	if err != nil {
		return err
	}
	db.count(m.Tensors)
	for _, h := range spares {
		if s := db.chunks[h]; s != nil {
			s.refs++
		}
	}
	return nil
}

// Unreadable reports whether the file, as it was when it was opened, had records
// that could not be read. What they led to may still be in it: [Recover] finds it.
// Until then, or until they are deleted, no room is reclaimed.
func (db *DB) Unreadable() bool {
	db.writer.Lock()
	defer db.writer.Unlock()
	return db.keep
}

// count adds to the references of the chunks of ts.
func (db *DB) count(ts []TensorEntry) {
	for _, t := range ts {
		for _, c := range t.Chunks {
			if s := db.chunks[c.Hash]; s != nil {
				s.refs++
			}
		}
	}
}

// reclaimAtOnce is the most chunks deleted in one transaction.
const reclaimAtOnce = 1024

// reclaim deletes the chunks that no checkpoint uses.
func (db *DB) reclaim() error {
	if db.keep {
		return nil
	}
	var gone []Hash
	for h, s := range db.chunks {
		if s.refs == 0 {
			gone = append(gone, h)
		}
	}
	for some := range slices.Chunk(gone, reclaimAtOnce) {
		err := db.update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucketChunks)
			for _, h := range some {
				if err := b.DeleteBucket(h[:]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			err = fmt.Errorf("reclaiming %d unused chunks: %w", len(gone), err)
			if db.broken == nil { // after a failed sync nobody knows whether they are there
				if e := db.reindex(); e != nil {
					err = fmt.Errorf("%w; after it: %w", err, e)
				}
			}
			return err
		}
		for _, h := range some {
			delete(db.chunks, h)
		}
	}
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
