//go:build static && !cgo

package command

// usesC says that threads are those of the C library.
const usesC = false
