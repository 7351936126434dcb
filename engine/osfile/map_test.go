//go:build unix

package osfile

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func TestMap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, make([]byte, 3<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Map(f, math.MaxInt-1<<20); !errors.Is(err, syscall.ENOMEM) || !strings.HasSuffix(err.Error(), ": raise the limit on address space (ulimit -v)") {
		t.Errorf("more than there are addresses: %v", err)
	}
	m, err := Map(f, 3<<16)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	var sum int
	count := func() error {
		for _, b := range m.Bytes() {
			sum += int(b) + 1
		}
		return nil
	}
	if err := m.Guard(count); err != nil || sum != 3<<16 {
		t.Errorf("%d bytes, %v", sum, err)
	}
	if err := os.Truncate(path, 1<<16); err != nil {
		t.Fatal(err)
	}
	if err := m.Guard(count); !errors.Is(err, ErrShrunk) || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("a file that was cut short: %v", err)
	}
	func() {
		defer func() {
			if x := recover(); x != "other" {
				t.Errorf("panic %v", x)
			}
		}()
		_ = m.Guard(func() error { panic("other") })
	}()
	runtime.GC() // unmaps it
	if empty, err := Map(nil, 0); err != nil || len(empty.Bytes()) != 0 {
		t.Error(err)
	}
}
