//go:build unix

package host

import "golang.org/x/sys/unix"

// reservePages maps n zeroed bytes. Pages take memory when they are first
// touched.
func reservePages(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|noReserve)
}

// backPages has nothing to do: touching a page backs it.
func backPages([]byte, int64, int64) bool { return true }

// unmap gives a mapping back.
func unmap(mem []byte) error { return unix.Munmap(mem) }
