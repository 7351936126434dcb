package osfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
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

// However long a name is, a file beside it can be made, under a name of its own.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	if got := Beside(filepath.Join(dir, "c.db"), ".new"); got != filepath.Join(dir, "c.db.new") {
		t.Errorf("a short name: %s", got)
	}
	seen := map[string]string{}
	for _, unit := range []string{"a", "ä", "語"} {
		for _, end := range []string{"", ".csv", ".db"} {
			name := strings.Repeat(unit, (255-len(end))/len(unit)) + end
			got := Beside(filepath.Join(dir, name), ".berth-repair-1234567890")
			base := filepath.Base(got)
			if filepath.Dir(got) != dir || len(base) > longestName || !utf8.ValidString(base) || !strings.HasSuffix(base, ".berth-repair-1234567890") {
				t.Errorf("%s: %s", name, got)
			}
			if old := seen[got]; old != "" {
				t.Errorf("%s and %s have %s in common", old, name, got)
			}
			seen[got] = name
			write(t, got, "")
		}
	}
}

// What a killed process left is removed for a long name, too.
func TestCreateBesideALongName(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 255))
	left := Beside(path, fmt.Sprintf(".berth-%d-7", 1<<30))
	write(t, left, "half")
	f, err := CreateBeside(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was left: %v", left, err)
	}
}

// A folder that a killed process left is removed by the next attempt; that of a process
// which runs, and one that no program wrote, stay.
func TestFolderBeside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	gone := 1 << 30 // a process id that no system gives
	left, mine := fmt.Sprintf("%s.berth-%d-1", path, gone), path+".berth-new"
	for _, folder := range []string{left + ".d", mine} {
		if err := os.MkdirAll(filepath.Join(folder, "below"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, left, "")
	one, err := FolderBeside(path)
	if err != nil {
		t.Fatal(err)
	}
	two, err := FolderBeside(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []string{one.Path, two.Path, mine} {
		if _, err := os.Stat(x); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(os.Rename(one.Path, path), one.End(), two.End()); err != nil {
		t.Error(err)
	}
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if want := []string{path, mine}; err != nil || !slices.Equal(list, want) {
		t.Errorf("there are %q, want %q, %v", list, want, err)
	}
}
