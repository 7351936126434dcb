package rundir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/osfile"
)

// CheckRemove refuses with ErrNoRun a folder that holds no run, with ErrFolder a link to a
// folder, and with checkpoint.ErrHeld one in which a run trains.
func CheckRemove(dir string) error {
	if to, err := os.Readlink(filepath.Clean(dir)); err == nil {
		return fmt.Errorf("%w: %s is a link to %s: name that folder", ErrFolder, dir, to)
	}
	dir = osfile.Resolve(dir)
	if !IsRun(dir) {
		return fmt.Errorf("%s: %w: it has no %s, which marks a run: name a run folder, such as runs/digits, or delete the files themselves", dir, ErrNoRun, CheckpointsName)
	}
	if _, err := StatusOf(dir); errors.Is(err, checkpoint.ErrHeld) {
		return err
	}
	if foreign, err := checkpoint.Foreign(context.Background(), CheckpointPath(dir)); foreign && err == nil {
		return fmt.Errorf("%s: %w: its %s is not of a run: delete the files themselves", dir, ErrNoRun, CheckpointsName)
	}
	return nil
}

// Remove deletes a run: the files that a run writes, and the folder unless it holds
// others. It returns the names of those. It fails as CheckRemove does.
func Remove(dir string) (left []string, err error) {
	dir = osfile.Resolve(dir)
	if err := CheckRemove(dir); err != nil {
		return nil, err
	}
	claim, err := checkpoint.ClaimFile(CheckpointPath(dir), checkpoint.OpenOptions{Readers: checkpoint.WaitForReaders})
	if err != nil {
		return nil, err
	}
	others := foreign(dir)
	for _, name := range append(eventFiles(dir), ReportName, MetricsName, TokenizerName, ConfigName) {
		_ = os.Remove(unfinished(filepath.Join(dir, name))) // or it is among those that are left
		path := filepath.Join(dir, name)
		if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() || slices.Contains(others, name) {
			continue
		}
		if err := os.Remove(path); err != nil {
			return nil, errors.Join(err, claim.Close())
		}
	}
	if err := claim.Remove(); err != nil { // last: the checkpoints mark the folder
		return nil, err
	}
	return removeFolder(dir)
}

// removeFolder removes a folder that is empty, and otherwise returns the names of
// the files in it. A link to a folder stays.
func removeFolder(dir string) (left []string, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		left = append(left, f.Name())
	}
	if st, err := os.Lstat(dir); len(left) > 0 || err != nil || !st.IsDir() {
		return left, err
	}
	return nil, os.Remove(dir)
}
