//go:build static || !(linux || darwin || freebsd)

package cl

import "errors"

func load() (f [numFunctions]uintptr, err error) {
	return f, errors.New("this binary was built without the means to load a library")
}

func syscall(uintptr, []uintptr) uintptr { panic("BUG: no library was loaded") }
