//go:build !linux && !darwin && !freebsd && !windows

package host

import (
	"fmt"
	"runtime"
)

func available() (int64, error) {
	return 0, fmt.Errorf("%s is not asked for it", runtime.GOOS)
}
