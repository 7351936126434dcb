package safetensors

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrChanged is the error of reading a file that was written to since it was opened.
var ErrChanged = errors.New("the file was changed while it was in use")

// unchanged is an open file that must stay as it is: a model would get weights of
// two files. A file that takes its place does not matter.
type unchanged struct {
	*os.File
	size int64
	time time.Time
}

func newUnchanged(f *os.File) (*unchanged, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &unchanged{f, st.Size(), st.ModTime()}, nil
}

// Read reads on.
func (u *unchanged) Read(dst []byte) (int, error) {
	n, err := u.File.Read(dst)
	return u.check(n, err)
}

// ReadAt reads anywhere.
func (u *unchanged) ReadAt(dst []byte, off int64) (int, error) {
	n, err := u.File.ReadAt(dst, off)
	return u.check(n, err)
}

// check passes the result of a read on, unless what it read does not count.
func (u *unchanged) check(n int, err error) (int, error) {
	switch st, e := u.Stat(); {
	case e != nil:
		return 0, e
	case st.Size() != u.size || !st.ModTime().Equal(u.time):
		return 0, fmt.Errorf("%w: to replace a file in use, write a new file and rename it to this name", ErrChanged)
	}
	return n, err
}
