//go:build unix && !linux

package hostfile

import (
	"errors"
	"os"
)

// nameless makes a file without a name.
func nameless(dir string) (*os.File, error) { return createAndRemove(dir) }

// takeRoom takes a range of the file on the disk.
func takeRoom(f *os.File, off, n int64) error { return fillRoom(f, off, n) }

func giveRoom(*os.File, int64, int64) error { return errors.ErrUnsupported }

func freeRoom(*os.File) (bytes int64, known bool) { return 0, false }
