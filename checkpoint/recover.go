package checkpoint

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
)

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
	writePid(path)
	defer removePid(path)
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
