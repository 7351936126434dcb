//go:build static || !(linux || darwin) || !(amd64 || arm64)

package cl

import "errors"

func load() (driver, error) {
	return nil, errors.New("this binary cannot load libraries")
}
