package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/engine/osfile"
)

// Claim is the lock on a file that a new one is to take the place of, whatever
// is in it. Make with [ClaimFile]; end with Replace or Close. One goroutine uses
// it.
type Claim struct {
	path string
	file *os.File // nil once ended
}

// ClaimFile locks a file for replacing it; it makes an empty file where there
// is none. Of o, it heeds how long to wait for other processes. Nothing in the
// file is read or changed. ErrHeld names the process that has it open.
func ClaimFile(path string, o OpenOptions) (*Claim, error) {
	o.ReadOnly = false
	f, err := openLocked(path, o)
	if err != nil {
		return nil, err
	}
	writePid(path)
	return &Claim{path, f}, nil
}

// Replace puts a new file without checkpoints in the claimed one's place, and
// opens it. No other process gets at either before the new one is closed.
func (c *Claim) Replace(o OpenOptions) (*DB, error) {
	sweep(c.path)
	fresh := c.path + freshSuffix
	if err := removeMade(fresh); err != nil {
		return nil, fmt.Errorf("replacing %s: %w", c.path, err)
	}
	db, err := Open(fresh, o)
	if err != nil {
		return nil, fmt.Errorf("replacing %s: %w", c.path, errors.Join(err, removeMade(fresh)))
	}
	if err := osfile.Rename(fresh, c.path); err != nil {
		return nil, fmt.Errorf("replacing %s: %w", c.path, errors.Join(err, db.Close(), removeMade(fresh)))
	}
	removePid(fresh)
	db.path = c.path
	err = errors.Join(release(c.file), osfile.SyncDir(filepath.Dir(c.path)))
	c.file = nil
	if err != nil {
		return nil, fmt.Errorf("replacing %s: %w", c.path, errors.Join(err, db.Close()))
	}
	return db, nil
}

// Close lets go of the file and leaves it as it is. After Replace it does
// nothing.
func (c *Claim) Close() error {
	if c.file == nil {
		return nil
	}
	removePid(c.path)
	err := release(c.file)
	c.file = nil
	return err
}
