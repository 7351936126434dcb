package osfile

import (
	"path/filepath"
	"runtime"
	"testing"
)

// TestRoom: a folder that is not there has the room of the disk that it would be on.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	here, known := Room(dir)
	if !known && (runtime.GOOS == "linux" || runtime.GOOS == "windows" || runtime.GOOS == "darwin") {
		t.Error("it is not known")
	}
	there, also := Room(filepath.Join(dir, "a", "b"))
	if known && here <= 0 || also != known || known && (there < here/2 || there > 2*here) {
		t.Errorf("%d bytes, and in a folder that is not there %d", here, there)
	}
}
