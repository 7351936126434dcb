package osfile

import (
	"os"
	"path/filepath"
)

// Room is the bytes that are free for this user on the disk of a folder, which need not be there yet. known is false
// where the system does not tell.
func Room(dir string) (bytes int64, known bool) {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return room(dir)
		}
		dir = filepath.Dir(dir)
	}
}
