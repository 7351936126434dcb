//go:build !static && (linux || darwin || freebsd)

package cl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ebitengine/purego"
)

// libraries are the files that are tried, as the system's loader finds them.
var libraries = []string{"libOpenCL.so.1", "libOpenCL.so", "/System/Library/Frameworks/OpenCL.framework/OpenCL"}

// load finds the functions of the system's OpenCL loader.
func load() (f [numFunctions]uintptr, err error) {
	for _, file := range libraries {
		handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			continue
		}
		for i, name := range functionNames {
			if f[i], err = purego.Dlsym(handle, name); err != nil {
				return f, fmt.Errorf("%s has no %s: OpenCL 1.2 is needed", file, name)
			}
		}
		return f, nil
	}
	return f, errors.New("there is none of " + strings.Join(libraries, ", "))
}

// syscall calls a function. args must lie on the heap.
func syscall(f uintptr, args []uintptr) uintptr {
	r, _, _ := purego.SyscallN(f, args...)
	return r
}
