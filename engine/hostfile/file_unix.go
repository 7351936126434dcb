//go:build unix

package hostfile

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// createAndRemove makes a file and removes its name.
func createAndRemove(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".spill-*")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// fillRoom takes a range on the disk by writing it.
func fillRoom(f *os.File, off, n int64) error {
	zeros := make([]byte, 1<<20)
	for end := off + n; off < end; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), end-off)], off); err != nil {
			return err
		}
	}
	return nil
}

// mapShared maps a range of a file.
func mapShared(f *os.File, off int64, n int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), off, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func unmap(mem []byte) error { return unix.Munmap(mem) }

// evict unmaps whole pages of a file until they are touched again. Their contents
// stay in the file.
func evict(pages []byte) {
	if err := unix.Madvise(pages, unix.MADV_DONTNEED); err != nil {
		panic(fmt.Sprintf("BUG: evicting pages of our own mapping: %v", err))
	}
}
