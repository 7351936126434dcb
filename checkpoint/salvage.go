package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/engine/osfile"
)

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
		err = fmt.Errorf("%s: %w: %w: none is whole", db.path, ErrDamaged, ErrNotFound)
	default:
		err = fmt.Errorf("%s: %w: it holds none", db.path, ErrNotFound)
	}
	return n, err
}
