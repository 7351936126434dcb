package cl

import (
	"bytes"
	std "context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/filecache"
)

// executables keeps compiled programs for all devices of the process, in memory. They
// are in the user's cache, too, for other processes.
var executables = memoryCache{most: 64 << 20}

// memoryCache keeps the binaries that were used last.
type memoryCache struct {
	most int // bytes

	mu    sync.Mutex
	list  []executable // the one used longest ago first
	bytes int
}

// executable is a compiled program, as its driver writes it.
type executable struct {
	key    filecache.Key
	binary []byte
}

// get is a binary; nil if it is not there.
func (m *memoryCache) get(key filecache.Key) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.list, func(x executable) bool { return x.key == key })
	if i < 0 {
		return nil
	}
	x := m.list[i]
	m.list = append(slices.Delete(m.list, i, i+1), x)
	return x.binary
}

// put adds a binary or replaces the one of its key, and drops others beyond most bytes.
func (m *memoryCache) put(key filecache.Key, binary []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.IndexFunc(m.list, func(x executable) bool { return x.key == key }); i >= 0 {
		m.bytes -= len(m.list[i].binary)
		m.list = slices.Delete(m.list, i, i+1)
	}
	m.list, m.bytes = append(m.list, executable{key, binary}), m.bytes+len(binary)
	for len(m.list) > 0 && m.bytes > m.most {
		m.bytes -= len(m.list[0].binary)
		m.list = slices.Delete(m.list, 0, 1)
	}
}

// keyOf is a hash of all that decides a unit's binary.
func (c *context) keyOf(u *unit) filecache.Key {
	h := sha256.New()
	for _, s := range []string{c.of.platform, c.of.release, c.of.name, c.of.version, buildOptions(c.of), u.text} {
		fmt.Fprintf(h, "%d %s\n", len(s), s)
	}
	return filecache.Key(h.Sum(nil))
}

// pocl is the name of a driver that keeps what it has compiled itself. It compiles at a
// kernel's first launch, for that launch; a binary would cost it another compilation of
// each kernel, and save none.
const pocl = "Portable Computing Language"

// program makes a program of a unit, and tells where from: of a binary that is kept, or
// of the text. The caller releases it.
func (c *context) program(u *unit) (program uintptr, from device.Source, err error) {
	if c.of.platform == pocl {
		program, err = c.compile(u)
		return program, device.Anew, err
	}
	key := c.keyOf(u)
	if binary := executables.get(key); binary != nil {
		if p, err := c.load(binary); err == nil {
			return p, device.InMemory, nil
		}
	}
	folder, err := filecache.Default(filecache.Kernels)
	if err != nil {
		program, err = c.compile(u)
		return program, device.Anew, err
	}
	return c.fromDisk(folder, key, u)
}

// find tells where program would get a unit. A file that is damaged counts as whole.
func (c *context) find(u *unit) device.Source {
	if c.of.platform == pocl {
		return device.Anew
	}
	key := c.keyOf(u)
	if executables.get(key) != nil {
		return device.InMemory
	}
	if folder, err := filecache.Default(filecache.Kernels); err == nil && folder.Has(key) {
		return device.OnDisk
	}
	return device.Anew
}

// errNoBinary says that there is nothing to keep.
var errNoBinary = errors.New("the driver gives no binary")

// fromDisk is program, with a folder of binaries. That nothing can be kept there costs
// time only.
func (c *context) fromDisk(folder filecache.Folder, key filecache.Key, u *unit) (program uintptr, from device.Source, err error) {
	made := false
	write := func(w io.Writer) error {
		made = true
		if program, err = c.compile(u); err != nil {
			return err
		}
		binary := c.binary(program)
		if binary == nil {
			return errNoBinary
		}
		executables.put(key, binary)
		_, failure := w.Write(append(key[:], binary...))
		return failure
	}
	for range 2 { // the second time where the driver refuses the file
		f, failure := folder.Open(std.Background(), key, write)
		if made || failure != nil {
			break
		}
		if binary, failure := contents(f, key); failure == nil {
			if program, failure = c.load(binary); failure == nil {
				executables.put(key, binary)
				return program, device.OnDisk, nil
			}
		}
		if folder.Remove(key) != nil {
			break
		}
	}
	if !made {
		program, err = c.compile(u)
	}
	return program, device.Anew, err
}

// contents is the binary in a file, which begins with its key.
func contents(f *filecache.File, key filecache.Key) (binary []byte, err error) {
	err = f.Mapping.Guard(func() error {
		rest, ok := bytes.CutPrefix(f.Bytes(), key[:])
		if !ok {
			return errNoBinary
		}
		binary = bytes.Clone(rest)
		return nil
	})
	return binary, err
}

// Properties of programs, by their numbers in the standard.
const (
	programBinarySizes = 0x1165
	programBinaries    = 0x1166
)

// binary is a program as its driver writes it; nil if it does not.
func (c *context) binary(program uintptr) []byte {
	const word = 8
	to := c.caller()
	var size uintptr
	if to.call(getProgramInfo, program, programBinarySizes, word, at(to, &size), 0) != nil || size == 0 {
		return nil
	}
	b := make([]byte, size)
	list := []uintptr{at(to, &b[0])}
	if to.call(getProgramInfo, program, programBinaries, word, at(to, &list[0]), 0) != nil {
		return nil
	}
	return b
}

// load makes a program of a binary. The caller releases it.
func (c *context) load(binary []byte) (uintptr, error) {
	if len(binary) == 0 {
		return 0, errNoBinary
	}
	to := c.caller()
	id, size := c.of.handle, uintptr(len(binary))
	var fits status
	list := []uintptr{at(to, &binary[0])}
	program, err := to.create(createProgramWithBinary, c.handle, 1, at(to, &id), at(to, &size), at(to, &list[0]), at(to, &fits))
	if err != nil {
		return 0, err
	}
	if err := c.build(program); err != nil {
		return 0, errors.Join(err, to.call(releaseProgram, program))
	}
	return program, nil
}
