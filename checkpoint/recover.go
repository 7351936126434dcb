package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
)

// Salvage copies every whole checkpoint of from, which may be damaged, into a
// new file at to, under the same ids, and hands report (which may be nil) what
// it had to leave. What the file's pages do not lead to any more is looked for in
// all of the file. It returns how many checkpoints it copied. ErrNotFound, and no
// file, when none is whole; with ErrDamaged, when there may have been one.
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
	tmp := fmt.Sprintf("%s.berth-repair-%d", to, os.Getpid())
	n, err := src.salvage(ctx, tmp, report, func() error { return appear(tmp, to) })
	if err != nil {
		return 0, err
	}
	return n, osfile.SyncDir(filepath.Dir(to))
}

// Recover puts a file in place of one that is damaged, so that it can be opened
// for writing again and nothing in it is unreadable: what Salvage copies is in
// it, and the damaged file is kept under the name that is returned. What had to
// be left out goes to report, which may be nil. Stopped at any moment, one of the
// two files is at path, and nobody else writes to it meanwhile. ErrNotFound, and
// path as it was, when no checkpoint is whole.
func Recover(ctx context.Context, path string, report func(Skipped)) (aside string, err error) {
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	f, err := openLocked(path, OpenOptions{Readers: WaitForReaders})
	if err != nil {
		return "", err
	}
	writePid(path)
	defer removePid(path)
	src, err := openDamaged(ctx, path, f)
	if err != nil {
		return "", err
	}
	defer src.Close()
	tmp := path + wholeSuffix
	_, err = src.salvage(ctx, tmp, report, func() (err error) {
		if aside, err = keepAside(path); err == nil {
			err = osfile.Rename(tmp, path)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return aside, osfile.SyncDir(filepath.Dir(path))
}

// WaitForReaders is the OpenOptions.Readers of Recover, and of who means to write
// and had better wait a moment for those who only look at the file.
const WaitForReaders = 2 * time.Second

// openDamaged is a locked file for reading what is left of it.
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

// rescue looks for what the pages do not lead to, and why.
func (db *DB) rescue(ctx context.Context, why error) error {
	if db.im == nil { // not even a first page
		st, err := db.file.Stat()
		if err != nil {
			return err
		}
		db.im = &image{r: db.file, size: st.Size(), note: why}
	}
	return db.im.rescue(ctx)
}

// salvage copies what is whole into a new file at tmp, which place then moves,
// before anybody else gets it. On an error there is none.
func (db *DB) salvage(ctx context.Context, tmp string, report func(Skipped), place func() error) (int, error) {
	err := removeMade(tmp)
	if err != nil {
		return 0, err
	}
	dst, err := Open(tmp, OpenOptions{})
	if err != nil {
		return 0, errors.Join(err, removeMade(tmp))
	}
	left := 0
	n, err := db.copyTo(ctx, dst, func(s Skipped) error {
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
		err = fmt.Errorf("%s: %w: %w: none is whole", db.path, ErrDamaged, ErrNotFound)
	default:
		err = fmt.Errorf("%s: %w: it holds none", db.path, ErrNotFound)
	}
	return n, errors.Join(err, removeMade(tmp), dst.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// keepAside gives a file a second name that is free, or a copy of that name
// where the file system has no links.
func keepAside(path string) (string, error) {
	for i := 1; ; i++ {
		aside := fmt.Sprintf("%s.damaged-%d", path, i)
		err := os.Link(path, aside)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = copyFile(path, aside)
		}
		if !errors.Is(err, fs.ErrExist) {
			return aside, err
		}
	}
}

func copyFile(from, to string) (err error) {
	src, err := osfile.Open(from, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return dst.Sync()
}
