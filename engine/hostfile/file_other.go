//go:build !unix

package hostfile

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

func nameless(string) (*os.File, error) {
	return nil, fmt.Errorf("%w on %s: allow more memory (--host-memory)", errors.ErrUnsupported, runtime.GOOS)
}

func takeRoom(*os.File, int64, int64) error { return errors.ErrUnsupported }

func mapShared(*os.File, int64, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) error { return nil }

func evict([]byte) {}

func giveRoom(*os.File, int64, int64) error { return errors.ErrUnsupported }

func freeRoom(*os.File) (bytes int64, known bool) { return 0, false }
