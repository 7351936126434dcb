package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/engine/osfile"
)

// Claim is the lock on a file that will be replaced by a new one, whatever is in
// it. [ClaimFile] makes it; Replace, Remove or Close ends it. It is for one goroutine.
type Claim struct {
	path string
	file *os.File // nil once ended
}

// ClaimFile locks a file that will be replaced, and makes an empty one if there is
// none. It neither reads nor changes the file. Of o it uses Timeout and Readers.
// The error ErrHeld names the process that has the file open.
func ClaimFile(path string, o OpenOptions) (*Claim, error) {
	o.ReadOnly = false
	f, err := openLocked(path, o)
	if err != nil {
		return nil, err
	}
	writePid(path)
	return &Claim{path, f}, nil
}

// Replace puts a new file without checkpoints in the place of the claimed one, and
// opens it. No other process can open either before the new one is closed.
func (c *Claim) Replace(o OpenOptions) (*DB, error) {
	sweep(c.path)
	fresh := osfile.Beside(c.path, freshSuffix)
	db, err := openNew(fresh, c.file, o)
	if err != nil {
		return nil, fmt.Errorf("replacing %s: %w", c.path, notNamed(err, fresh, "its replacement"))
	}
	if err := takePlace(fresh, c.path, c.file); err != nil {
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

// Remove deletes the claimed file, and ends the claim.
func (c *Claim) Remove() error {
	sweep(c.path)
	err := os.Remove(c.path)
	return errors.Join(err, c.Close())
}

// Close unlocks the file and leaves it as it is. After Replace it does nothing.
func (c *Claim) Close() error {
	if c.file == nil {
		return nil
	}
	removePid(c.path)
	err := release(c.file)
	c.file = nil
	return err
}
