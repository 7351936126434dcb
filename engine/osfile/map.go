package osfile

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
)

// Mapping is the contents of a file, which the system reads when they are used.
// They are valid as long as the Mapping is referenced: keep it beside any slice of
// Bytes.
type Mapping struct {
	bytes []byte
	name  string // of the file, for errors
}

// ErrShrunk is about a mapped file that lost contents, or whose disk failed.
var ErrShrunk = errors.New("the file was truncated while it was in use, or its disk failed")

// Map maps an open file of size bytes for reading. The file may be closed and
// removed, but not cut short, while the Mapping is used. Where the system maps no
// files, it is read.
func Map(f *os.File, size int64) (*Mapping, error) {
	if size == 0 {
		return &Mapping{}, nil
	}
	if size != int64(int(size)) {
		return nil, fmt.Errorf("%s: %d bytes are more than this system can address", f.Name(), size)
	}
	b, unmap, err := mapFile(f, int(size))
	if err != nil {
		err = fmt.Errorf("map %s: %w", f.Name(), err)
		if errors.Is(err, syscall.ENOMEM) {
			err = Advise(err, "raise the limit on address space (ulimit -v)")
		}
		return nil, err
	}
	m := &Mapping{b, f.Name()}
	runtime.AddCleanup(m, unmap, b)
	return m, nil
}

// Bytes are the contents. They must not be written.
func (m *Mapping) Bytes() []byte { return m.bytes }

// Guard runs f, which reads the contents. Contents that are not there any more are
// ErrShrunk, where they would otherwise end the process.
func (m *Mapping) Guard(f func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if x := recover(); x != nil {
			if !m.fault(x) {
				panic(x)
			}
			err = fmt.Errorf("%s: %w: run the program again; if it is a cache file, it is then rebuilt", m.name, ErrShrunk)
		}
		runtime.KeepAlive(m)
	}()
	return f()
}

// fault reports whether a panic is about an address of the mapping.
func (m *Mapping) fault(x any) bool {
	e, ok := x.(interface {
		runtime.Error
		Addr() uintptr
	})
	return ok && len(m.bytes) > 0 && within(m.bytes, e.Addr())
}
