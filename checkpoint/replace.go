package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
	osfile.LeavePid(path)
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
	osfile.RemovePid(fresh)
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
	osfile.RemovePid(c.path)
	err := release(c.file)
	c.file = nil
	return err
}

// openNew opens a new file at tmp, in place of an unfinished one that a killed
// process left. Who may not read the file like may not read the new one.
func openNew(tmp string, like *os.File, o OpenOptions) (*DB, error) {
	if err := removeMade(tmp); err != nil {
		return nil, err
	}
	st, err := like.Stat()
	if err != nil {
		return nil, err
	}
	f, err := osfile.OpenMode(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, st.Mode().Perm()|ownerMay)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, errors.Join(err, removeMade(tmp))
	}
	o.Existing = false
	db, err := Open(tmp, o)
	if err != nil {
		return nil, errors.Join(err, removeMade(tmp))
	}
	return db, nil
}

// ownerMay is the mode that a file needs to be filled.
const ownerMay = 0o600

// A file that will replace another is made beside it, with one of these suffixes.
// Files with such names are removed: see sweep.
const (
	compactSuffix = ".berth-compact"
	wholeSuffix   = ".berth-whole"
	freshSuffix   = ".berth-fresh"
)

// notNamed is an error about the unfinished file tmp as one about the file that it
// was to be.
func notNamed(err error, tmp, file string) error {
	switch {
	case err == nil || !strings.Contains(err.Error(), tmp):
		return err
	case outOfSpace(err): // which bbolt words for itself
		return &renamed{err, fmt.Sprintf("%s cannot be written: %v", file, noRoomOf(err))}
	}
	return &renamed{err, strings.ReplaceAll(err.Error(), tmp, file)}
}

// renamed is an error of which only the words are others.
type renamed struct {
	cause error
	text  string
}

func (r *renamed) Error() string { return r.text }
func (r *renamed) Unwrap() error { return r.cause }

// appear gives a finished file its name. It fails if there is a file of that name.
func appear(tmp, name string) error {
	err := os.Link(tmp, name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return errors.Join(err, removeIfThere(tmp))
	}
	// Not every file system has links.
	if _, e := os.Lstat(name); e == nil {
		return fmt.Errorf("%s: %w", name, fs.ErrExist)
	}
	return osfile.Rename(tmp, name)
}

// sweep removes unfinished replacements of a file, left by killed processes. The
// caller has the file locked, so no process is making one. One that cannot be
// removed is an error later, when another is made.
func sweep(path string) {
	for _, suffix := range []string{compactSuffix, wholeSuffix, freshSuffix} {
		_ = removeMade(osfile.Beside(path, suffix))
	}
}

// ownName is the name of a file that will become the one at path: path, suffix
// and the id of this process. Those that killed processes left are removed.
func ownName(path, suffix string) string {
	for _, left := range osfile.LeftBeside(path, suffix) {
		_ = removeMade(left) // it is in nobody's way
	}
	return osfile.Beside(path, fmt.Sprintf("%s%d", suffix, os.Getpid()))
}

// removeMade removes an unfinished file, and the process id beside it.
func removeMade(path string) error {
	return errors.Join(removeIfThere(path), removeIfThere(osfile.PidPath(path)))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// takePlace puts a finished file in the place of old at path, with its mode.
func takePlace(tmp, path string, old *os.File) error {
	st, err := old.Stat()
	if err != nil {
		return err
	}
	if err := os.Chmod(tmp, st.Mode().Perm()); err != nil {
		return err
	}
	return osfile.Rename(tmp, path)
}
