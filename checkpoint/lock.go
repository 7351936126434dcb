package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
)

// lockRetry is the pause between attempts to get the lock.
const lockRetry = 20 * time.Millisecond

// openLocked opens the file and locks it, for one writer or many readers, for
// as long as it is open.
func openLocked(path string, o OpenOptions) (*os.File, error) {
	flag := os.O_RDWR | os.O_CREATE
	switch {
	case o.ReadOnly:
		flag = os.O_RDONLY
	case o.Existing:
		flag = os.O_RDWR
	}
	for began := time.Now(); ; {
		f, err := osfile.Open(path, flag)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		if err != nil {
			return nil, fmt.Errorf("checkpoint file: %w", err)
		}
		got, err := osfile.Lock(f, !o.ReadOnly)
		if got && sameFile(f, path) {
			return f, nil
		}
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("checkpoint file %s: cannot be locked: %w", path, err)
		}
		if !got && time.Since(began) >= o.patience(path) {
			return nil, held(path, o.ReadOnly)
		}
		if !got {
			time.Sleep(lockRetry)
		}
	}
}

// patience is the longest wait for the process that has the file.
func (o OpenOptions) patience(path string) time.Duration {
	if _, alive := osfile.LeftPid(path); alive || o.ReadOnly {
		return o.Timeout
	}
	return max(o.Timeout, o.Readers)
}

// sameFile reports whether the path still leads to the open file. Compaction
// puts another one there.
func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

// held is the error about a file that another process has, or this one for another
// use.
func held(path string, reading bool) error {
	by, advice := errors.New("another process"), "stop that process"
	switch pid, alive := osfile.LeftPid(path); {
	case alive && pid == os.Getpid():
		by, advice = ErrHeldHere, "wait until the run or DB that has it is closed"
	case alive:
		by = fmt.Errorf("process %d", pid)
	}
	if reading {
		advice += ", or use a copy: `trainer checkpoints copy` makes one while the file is in use"
	}
	return fmt.Errorf("%w by %w: %s: %s", ErrHeld, by, path, advice)
}

// release unlocks the file and closes it. Closing alone does not unlock a file
// while a mapping of it is left.
func release(f *os.File) error {
	return errors.Join(osfile.Unlock(f), f.Close())
}

// Abandoned reports whether the process that last wrote to a file ended without
// closing it: it was killed, or the machine failed.
func Abandoned(path string) bool {
	pid, alive := osfile.LeftPid(path)
	return pid > 0 && !alive
}
