package osfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCreateBeside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.csv")
	gone := 1 << 30 // a process id that no system gives
	left := fmt.Sprintf("%s.berth-%d-7", path, gone)
	older := fmt.Sprintf("%s.berth-%d", path, gone)
	for _, p := range []string{left, older} {
		write(t, p, "half")
	}
	kept := []string{
		path + ".berth-7x", path + ".berth-", path + ".berth",
		fmt.Sprintf("%s.berth-%d", path, os.Getpid()),
		fmt.Sprintf("%s.berth-%d", filepath.Join(dir, "out"), gone),
		fmt.Sprintf("%s.berth-%d-locked", path, gone),
	}
	for _, p := range kept {
		write(t, p, "")
	}
	holder := open(t, kept[len(kept)-1], os.O_RDWR)
	defer holder.Close()
	if got, err := Lock(holder, true); !got || err != nil {
		t.Fatal(got, err)
	}

	f, err := CreateBeside(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g, err := CreateBeside(path) // of the same process: a file of its own
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, p := range slices.Concat(kept, []string{f.Name(), g.Name()}) {
		if _, err := os.Stat(p); err != nil {
			t.Error(err)
		}
	}
	for _, p := range []string{left, older} {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was left: %v", p, err)
		}
	}
}
