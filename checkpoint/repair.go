package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
)

// Verify reads every byte of a checkpoint, or of all for id 0, and hands report,
// which may be nil, all damage. The error is nil if there is none, and ErrHeld for a
// file that another process writes to.
func (db *DB) Verify(ctx context.Context, id uint64, report func(Skipped)) error {
	if db.live {
		return held(db.path, true)
	}
	if report == nil {
		report = func(Skipped) {}
	}
	if id != 0 {
		return db.verifyOne(ctx, id, report)
	}
	ms, skipped, err := db.list(ctx)
	if err != nil {
		return err
	}
	found := len(skipped)
	for _, s := range skipped {
		report(s)
	}
	for _, m := range ms {
		if err := db.verifyOne(ctx, m.ID, report); err != nil {
			found++
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := db.verifyPages(); err != nil {
		report(Skipped{0, err})
		found++
	}
	if found > 0 {
		return fmt.Errorf("%s: %w in %d places: copy the complete checkpoints into a new file", db.path, ErrDamaged, found)
	}
	return nil
}

func (db *DB) verifyOne(ctx context.Context, id uint64, report func(Skipped)) error {
	s, err := db.Load(id)
	if err != nil {
		report(Skipped{id, err})
		return err
	}
	err = s.verify(ctx, func(err error) { report(Skipped{id, err}) })
	if e := s.verifySpares(); e != nil {
		report(Skipped{id, e})
		if err == nil {
			err = e
		}
	}
	return err
}

// verify reads every chunk. Without report it stops at the first damage. With
// report, it reports every damaged chunk and returns the first error at the end.
func (s *Snapshot) verify(ctx context.Context, report func(error)) error {
	var first error
	for i := range s.Manifest.Tensors {
		err := s.eachChunk(ctx, &s.Manifest.Tensors[i], func(_ Chunk, read func() ([]byte, error)) error {
			_, err := read()
			if err == nil || report == nil {
				return err
			}
			report(err)
			first = cmp.Or(first, err)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return first
}

// verifySpares reads the second copies, if the file has them.
func (s *Snapshot) verifySpares() error {
	im, unlock, err := s.db.reading()
	if err != nil {
		return err
	}
	defer unlock()
	hashes, err := im.spares(s.Manifest.ID)
	if err != nil {
		return err
	}
	for _, h := range hashes {
		if _, ok, err := im.lookup(bucketChunks, h[:]); err != nil || !ok {
			return err
		}
		c, err := im.chunkAt(h)
		if err == nil && (c.packed || c.size > im.size) {
			err = damaged("it states an impossible size, %d bytes", c.size)
		}
		if err == nil {
			err = im.fill(make([]byte, c.size), h, c)
		}
		if err != nil {
			return fmt.Errorf("%s: checkpoint %d: chunk %v, a second copy of its records or small tensors (read only if the first is damaged): %w: copy the complete checkpoints into a new file", s.db.path, s.Manifest.ID, h, err)
		}
	}
	return nil
}

func (db *DB) verifyPages() error {
	im, unlock, err := db.reading()
	if err != nil {
		return err
	}
	defer unlock()
	return im.check()
}

// Foreign reports whether the file at path has contents, and none that this program
// wrote: it is somebody else's, whatever its name. No process may write to it meanwhile.
// ctx ends the search through a file that has lost its beginning.
func Foreign(ctx context.Context, path string) (bool, error) {
	f, err := osfile.Open(path, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if fresh, err := neverUsed(f); fresh || err != nil {
		return false, err
	}
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	if im, err := openImage(f, st.Size()); err == nil {
		if err = im.checkFormat(); err == nil || errors.Is(err, ErrFormat) {
			return false, nil
		}
	}
	s, err := newScan(ctx, f, st.Size())
	if err != nil {
		return false, err
	}
	return len(s.manifests)+len(s.heads) == 0, nil
}

// Salvage copies every whole checkpoint of a damaged file into a new file at to,
// under the same ids. It hands report, which may be nil, the checkpoints that it
// left out. Where the file's pages lead nowhere, it searches all of the file.
//
// It returns the number of checkpoints copied. If none is whole it makes no file;
// the error is ErrNotFound, and also ErrDamaged if there were any.
func Salvage(ctx context.Context, from, to string, report func(Skipped)) (int, error) {
	if _, err := os.Lstat(to); err == nil {
		return 0, fmt.Errorf("salvage into %s: %w: name a file that does not exist", to, fs.ErrExist)
	}
	f, err := openLocked(from, OpenOptions{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	src, err := openDamaged(ctx, from, f)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	tmp := ownName(to, ".berth-repair-")
	n, err := src.salvage(ctx, tmp, report, func() error { return appear(tmp, to) })
	if err != nil {
		return 0, notNamed(err, tmp, to)
	}
	return n, osfile.SyncDir(filepath.Dir(to))
}

// openDamaged opens a locked file for reading the parts of it that are whole.
func openDamaged(ctx context.Context, path string, f *os.File) (*DB, error) {
	db := &DB{path: path, opts: OpenOptions{ReadOnly: true}, file: f}
	err := db.look()
	if err == nil {
		err = db.Verify(ctx, 0, nil)
	}
	if errors.Is(err, ErrDamaged) {
		err = db.rescue(ctx, err)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), db.Close())
	}
	return db, nil
}

// rescue searches the file for contents that its pages do not lead to. why is the
// damage that made the search necessary.
func (db *DB) rescue(ctx context.Context, why error) error {
	if db.im == nil { // neither meta page is valid
		st, err := db.file.Stat()
		if err != nil {
			return err
		}
		db.im = &image{r: db.file, size: st.Size(), note: why}
	}
	return db.im.rescue(ctx)
}

// salvage copies the whole checkpoints into a new file at tmp, which place then
// moves, while it is still locked. On an error no file is left.
func (db *DB) salvage(ctx context.Context, tmp string, report func(Skipped), place func() error) (n int, err error) {
	dst, err := openNew(tmp, db.file, OpenOptions{})
	if err != nil {
		return 0, err
	}
	// Whatever happens, also to report.
	defer func() { err = errors.Join(err, removeMade(tmp), dst.Close()) }()
	left := 0
	n, err = db.copyTo(ctx, dst, func(s Skipped) error {
		left++
		if report != nil {
			report(s)
		}
		return nil
	})
	switch {
	case err != nil:
	case n > 0:
		err = place()
	case left > 0:
		err = fmt.Errorf("%s: %w: %w: none of its checkpoints is complete", db.path, ErrDamaged, ErrNotFound)
	default:
		err = fmt.Errorf("%s: %w: the file has no checkpoint", db.path, ErrNotFound)
	}
	return n, err
}

// Recover replaces a damaged file by a new one that has the checkpoints that
// Salvage copies: it can be opened for writing, and all of it can be read. The
// damaged file is kept under the name that is returned. Checkpoints that were left
// out go to report, which may be nil.
//
// Stopped at any moment, one of the two files is at path. No other process can
// write to it meanwhile. If no checkpoint is whole, the error is ErrNotFound and
// the file stays as it was.
func Recover(ctx context.Context, path string, report func(Skipped)) (aside string, err error) {
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	f, err := openLocked(path, OpenOptions{Readers: WaitForReaders})
	if err != nil {
		return "", err
	}
	osfile.LeavePid(path)
	defer osfile.RemovePid(path)
	src, err := openDamaged(ctx, path, f)
	if err != nil {
		return "", err
	}
	defer src.Close()
	tmp := osfile.Beside(path, wholeSuffix)
	_, err = src.salvage(ctx, tmp, report, func() (err error) {
		if aside, err = osfile.KeepAside(path, ".damaged"); err == nil {
			err = takePlace(tmp, path, f)
		}
		return err
	})
	if err != nil {
		return "", notNamed(err, tmp, path)
	}
	return aside, osfile.SyncDir(filepath.Dir(path))
}

// WaitForReaders is the OpenOptions.Readers of Recover, and of programs that are
// to wait a moment for processes that only look at the file.
const WaitForReaders = 2 * time.Second
