//go:build static || !linux || !(amd64 || arm64)

package mpi

import (
	"fmt"
	"time"

	"github.com/berth-ml/berth/executor/ranks"
)

// library is none: this build cannot load one.
type library struct {
	file string
	at   [numFunctions]uintptr
}

func load([]string) (*library, error) {
	return nil, fmt.Errorf("%w: this build loads no libraries: ranks need Linux and a binary without the tag static", ranks.ErrLibrary)
}

func (*library) find(string) (uintptr, bool) { return 0, false }

func call(uintptr, ...uintptr) uintptr { panic("BUG: no library is loaded") }

func mapped[T any]() (*T, error) { panic("BUG: no library is loaded") }

func yield() {}

func futexWait(*uint32, time.Duration) {}

func futexWake(*uint32) {}

func muteErrors() {}
