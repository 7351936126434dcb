//go:build static || !(linux || darwin || freebsd)

package cl

import "errors"

func load() (driver, error) {
	return nil, errors.New("this binary cannot load libraries")
}
