//go:build unix

package configs

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pipe is refused at once.
func TestLoadPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "c.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := Load(pipe, Overlay{})
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "is not a file; give the path of a config file") {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("still waiting")
	}
}
