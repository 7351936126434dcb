//go:build static || !linux || !amd64

package blas

import "errors"

func load() (name string, sgemm uintptr, err error) {
	return "", 0, errors.New("this program was built without it: build for linux on amd64 without the tag static, or do without")
}

// call is for libraries, of which there are none.
func call(uintptr, []uintptr) { panic("BUG: a product for a library that was not loaded") }
