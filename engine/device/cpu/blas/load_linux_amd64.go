//go:build !static

package blas

import (
	"fmt"
	"strings"

	"github.com/ebitengine/purego"
)

// names are the files that are tried, as the system's loader finds them.
var names = []string{"libopenblas.so.0", "libopenblas.so", "libopenblasp.so.0"}

// load finds a library that has all functions that are used, and makes it compute in
// the thread that calls it. Its error names the missing files or function.
func load() (name string, sgemm uintptr, err error) {
	for _, file := range names {
		handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return bind(file, handle)
		}
	}
	return "", 0, fmt.Errorf("there is none of %s: install it (Debian's package is libopenblas0) or do without", strings.Join(names, ", "))
}

// bind looks up the functions of a library.
func bind(file string, handle uintptr) (name string, sgemm uintptr, err error) {
	var at [3]uintptr
	for i, symbol := range []string{"sgemm_", "openblas_set_num_threads", "openblas_get_corename"} {
		if at[i], err = purego.Dlsym(handle, symbol); err != nil {
			return "", 0, fmt.Errorf("%s has no %s: install OpenBLAS proper", file, symbol)
		}
	}
	purego.SyscallN(at[1], 1)
	var core func() string
	purego.RegisterFunc(&core, at[2])
	return fmt.Sprintf("%s (%s)", file, core()), at[0], nil
}

// call calls the function at f. A slice of the caller's saves one per call.
func call(f uintptr, args []uintptr) { purego.SyscallN(f, args...) }
