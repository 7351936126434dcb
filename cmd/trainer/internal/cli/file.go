package cli

import (
	"io/fs"
	"os"

	"github.com/berth-ml/berth/checkpoint/rundir"
)

// NewFile refuses to make a file that exists, or that cannot be made.
func NewFile(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return Usagef("%s: %w: name a file that does not exist", path, fs.ErrExist)
	}
	return rundir.CheckOutput(path)
}
