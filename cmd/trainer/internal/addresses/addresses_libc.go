//go:build !static || cgo

package addresses

// usesC says that threads are those of the C library.
const usesC = true
