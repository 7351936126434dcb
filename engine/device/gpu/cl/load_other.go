//go:build static || !(linux || darwin) || !(amd64 || arm64)

package cl

import "errors"

func load() (driver, error) {
	return nil, errors.New("this build of Berth cannot load shared libraries, which OpenCL needs")
}
