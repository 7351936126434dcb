//go:build !static && (linux || darwin) && (amd64 || arm64)

package cl

import (
	"errors"
	"fmt"

	"github.com/ebitengine/purego"
)

// libraries are the files that are tried, as the system's loader finds them.
var libraries = []string{"libOpenCL.so.1", "libOpenCL.so", "/System/Library/Frameworks/OpenCL.framework/OpenCL"}

// addresses are the functions of a library.
type addresses [numFunctions]uintptr

// load finds the functions of the system's OpenCL loader.
func load() (driver, error) {
	for _, file := range libraries {
		handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			continue
		}
		f := new(addresses)
		for i, name := range functionNames {
			if f[i], err = purego.Dlsym(handle, name); err != nil {
				return nil, fmt.Errorf("%s has no %s: install a loader of OpenCL 1.2 or later", file, name)
			}
		}
		return f, nil
	}
	return nil, errors.New("this system has no OpenCL library (libOpenCL)")
}

// call implements [driver].
func (a *addresses) call(f function, args []uintptr) uintptr {
	r, _, _ := purego.SyscallN(a[f], args...)
	return r
}
