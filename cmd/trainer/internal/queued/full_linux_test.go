package queued

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNewFileOnAFullDisk: a file that finds no room is not there, so that the same command can be given again.
func TestNewFileOnAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("mount: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path, content := filepath.Join(disk, "best.yaml"), strings.Repeat("x", 1000)
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<17), 0o666); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := writeNew(path, content); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(path, content); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != content {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
