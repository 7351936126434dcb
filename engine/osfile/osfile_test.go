package osfile

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string, flag int) *os.File {
	t.Helper()
	f, err := Open(path, flag)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// A file can be replaced while it is open and locked. Who has it open reads on.
func TestRenameOverOpenFile(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "new"), filepath.Join(dir, "c.db")
	write(t, from, "new")
	write(t, to, "old")
	old, next := open(t, to, os.O_RDWR), open(t, from, os.O_RDWR)
	if got, err := Lock(old, true); !got || err != nil {
		t.Fatal(got, err)
	}
	if err := Rename(from, to); err != nil {
		t.Fatal(err)
	}
	if err := SyncDir(dir); err != nil {
		t.Fatal(err)
	}
	for f, want := range map[*os.File]string{old: "old", next: "new"} {
		got := make([]byte, len(want))
		if _, err := f.ReadAt(got, 0); err != nil || string(got) != want {
			t.Errorf("the open file has %q, %v; want %q", got, err, want)
		}
	}
	if got, err := os.ReadFile(to); err != nil || string(got) != "new" {
		t.Errorf("the path leads to %q, %v", got, err)
	}
}

// Readers share a file; a writer has it alone.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	write(t, path, "")
	a, b := open(t, path, os.O_RDWR), open(t, path, os.O_RDWR)
	for _, c := range []struct{ first, second, want bool }{{false, false, true}, {false, true, false}, {true, false, false}, {true, true, false}} {
		if got, err := Lock(a, c.first); !got || err != nil {
			t.Fatalf("%+v: %v, %v", c, got, err)
		}
		got, err := Lock(b, c.second)
		if got != c.want || err != nil {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
		if got {
			err = Unlock(b)
		}
		if e := Unlock(a); e != nil || err != nil {
			t.Fatal(err, e)
		}
	}
}

// A file that was removed while it was open has no name.
func TestDeleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	f := open(t, path, os.O_RDWR|os.O_CREATE)
	if gone, err := Deleted(f); gone || err != nil {
		t.Errorf("before: %v, %v", gone, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if gone, err := Deleted(f); !gone || err != nil {
		t.Errorf("after: %v, %v", gone, err)
	}
}

func TestProcessExists(t *testing.T) {
	if !ProcessExists(os.Getpid()) {
		t.Error("this process is not there")
	}
	if ProcessExists(1 << 30) {
		t.Error("there is a process of a number that no system gives")
	}
}
