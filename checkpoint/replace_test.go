package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
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
