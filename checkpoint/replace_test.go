package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// While a file is claimed and replaced, whatever it holds, nobody else gets it.
func TestReplaceLetsNobodyIn(t *testing.T) {
	for name, text := range map[string]string{"none": "", "garbage": "not a checkpoint file at all"} {
		path := filepath.Join(t.TempDir(), "x.db")
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c, err := ClaimFile(path, OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var stop atomic.Bool
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for !stop.Load() {
					db, err := Open(path, OpenOptions{ReadOnly: true})
					if err == nil {
						err = db.Close()
					}
					if !errors.Is(err, ErrHeld) {
						t.Errorf("%s: got %v, want ErrHeld", name, err)
						return
					}
				}
			})
		}
		db, err := c.Replace(OpenOptions{})
		stop.Store(true)
		all.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if list, skipped, err := db.List(); err != nil || len(list)+len(skipped) > 0 || db.Path() != path {
			t.Errorf("%s: the new file %s has %v, %v, %v", name, db.Path(), list, skipped, err)
		}
		if err := errors.Join(db.Close(), c.Close()); err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(path + "?*"); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
}

// A claim that comes to nothing changes nothing.
func TestClaimChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, []byte("whatever"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := ClaimFile(path, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ClaimFile(path, OpenOptions{}); !errors.Is(err, ErrHeld) {
		t.Errorf("a second claim: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "whatever" {
		t.Errorf("the file is %q, %v", b, err)
	}
	if left, err := filepath.Glob(path + "?*"); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// What a killed process was making to put in the file's place goes when the file
// is opened for writing or replaced, and not while it is only read.
func TestLeftoversAreRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	leave := func() {
		for _, suffix := range []string{compactSuffix, wholeSuffix, freshSuffix} {
			for _, name := range []string{path + suffix, path + suffix + ".pid"} {
				if err := os.WriteFile(name, []byte("1"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	expect := func(when string, want int) {
		t.Helper()
		if left, err := filepath.Glob(path + ".*"); err != nil || len(left) != want {
			t.Errorf("%s: left %v, %v", when, left, err)
		}
	}
	leave()
	db := open(t, path, small)
	save(t, db, 1)
	expect("opened", 1)
	db.Close()
	expect("closed", 0)
	leave()
	open(t, path, OpenOptions{ReadOnly: true}).Close()
	expect("read", 6)
	c, err := ClaimFile(path, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if db, err = c.Replace(small); err != nil {
		t.Fatal(err)
	}
	expect("replaced", 1)
	db.Close()
	expect("closed", 0)
}

// Files whose names are as long as the file system allows are replaced and copied
// like others.
func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	name := func(c string) string { return filepath.Join(dir, strings.Repeat(c, 255)) }
	db := open(t, name("a"), small)
	save(t, db, 1)
	save(t, db, 2)
	if err := db.Compact(t.Context()); err != nil {
		t.Error(err)
	}
	if n, err := Copy(t.Context(), name("a"), name("b"), nil); n != 2 || err != nil {
		t.Errorf("copied %d, %v", n, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	spoilStep(t, name("b"), 2)
	if n, err := Salvage(t.Context(), name("b"), name("c"), nil); n != 1 || err != nil {
		t.Errorf("salvaged %d, %v", n, err)
	}
	claim, err := ClaimFile(name("a"), small)
	if err != nil {
		t.Fatal(err)
	}
	if db, err = claim.Replace(small); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if all, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(all) != 3 {
		t.Errorf("left %q, %v", all, err)
	}
}
