//go:build !static

package blas

import (
	"fmt"
	"strings"

	"github.com/ebitengine/purego"
)

// names are the files that are tried, as the system's loader finds them.
var names = []string{"libopenblas.so.0", "libopenblas.so", "libopenblasp.so.0"}

func load() (*Library, error) {
	for _, name := range names {
		handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			continue
		}
		return bind(name, handle)
	}
	return nil, fmt.Errorf("%w as %s: install it (Debian's package is libopenblas0) or do without",
		ErrNotFound, strings.Join(names, ", "))
}

// bind looks up what is used of a library and makes it compute in the thread
// that calls it.
func bind(name string, handle uintptr) (*Library, error) {
	var at [3]uintptr
	for i, symbol := range []string{"sgemm_", "openblas_set_num_threads", "openblas_get_corename"} {
		var err error
		if at[i], err = purego.Dlsym(handle, symbol); err != nil {
			return nil, fmt.Errorf("%w: %s is there but has no %s: install OpenBLAS proper", ErrNotFound, name, symbol)
		}
	}
	purego.SyscallN(at[1], 1)
	var core func() string
	purego.RegisterFunc(&core, at[2])
	return &Library{name: fmt.Sprintf("%s (%s)", name, core()), sgemm: at[0]}, nil
}

// call calls the function at f. A slice of the caller's saves one per call.
func call(f uintptr, args []uintptr) { purego.SyscallN(f, args...) }
