//go:build static || !linux || !amd64

package blas

import "fmt"

func load() (*Library, error) {
	return nil, fmt.Errorf("%w: this program was built without it: build for linux on amd64 without the tag static, or do without", ErrNotFound)
}

// call is for libraries, of which there are none.
func call(uintptr, []uintptr) { panic("BUG: a product for a library that was not loaded") }
