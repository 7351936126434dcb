package main

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"github.com/berth-ml/berth/engine/shape"
)

// open loads the first of some libraries that is there.
func open(what, install string, files ...string) (handle uintptr, err error) {
	var missing []error
	for _, f := range files {
		handle, err := purego.Dlopen(f, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return handle, nil
		}
		missing = append(missing, err)
	}
	return 0, fmt.Errorf("%s is not installed: %s: %w", what, install, errors.Join(missing...))
}

// block is memory outside the Go heap, of huge pages where the system has them, as a device's memory is.
type block []byte

func newBlock(bytes int) (block, error) {
	const page = 2 << 20
	size := bytes + 64
	if size > page {
		size = (size + page - 1) / page * page
	}
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("%d bytes: %w", bytes, err)
	}
	adviseHuge(b)
	return b, nil
}

func (b block) free() error { return unix.Munmap(b) }

func (b block) address() uintptr { return uintptr(unsafe.Pointer(&b[0])) }

// floats are the first n numbers.
func (b block) floats(n int) []float32 { return shape.View[float32](b)[:n] }

// cString is the text at an address of C's memory.
func cString(p unsafe.Pointer) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}
