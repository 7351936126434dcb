package checkpoint

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
)

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
