// Package memdir puts the temporary files of a package's tests in memory, on
// systems that have a folder for that. The tests then do not wait for the disk at
// every sync. Tests about the disk itself ask for a folder with [OnDisk].
package memdir

import (
	"os"
	"testing"
)

// shared is the folder of files in memory on Linux.
const shared = "/dev/shm"

// disk is the folder for temporary files before Run changes it.
var disk = os.TempDir()

// Tests is a [testing.M], or stands for one.
type Tests interface{ Run() int }

// Main is m with its temporary files in memory, for TestMain.
func Main(m Tests) Tests { return main{m} }

type main struct{ Tests }

func (m main) Run() int {
	dir, err := os.MkdirTemp(shared, "berth-")
	if err != nil {
		return m.Tests.Run()
	}
	defer os.RemoveAll(dir)
	if os.Chmod(dir, 0o755) == nil { // for tests that give up their privileges
		os.Setenv("TMPDIR", dir)
	}
	return m.Tests.Run()
}

// OnDisk is a folder on the disk, which is removed when the test ends.
func OnDisk(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(disk, "berth-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
