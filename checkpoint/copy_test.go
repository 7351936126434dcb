package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/memdir"
	"github.com/berth-ml/berth/internal/testall"
)

// wantCopy checks a copy: all of it is whole, and each checkpoint is of the step
// that it says.
func wantCopy(t *testing.T, path string) (ids []uint64) {
	t.Helper()
	db, err := Open(path, OpenOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Verify(t.Context(), 0, nil); err != nil {
		t.Error(err)
	}
	for _, id := range idsOf(t, db) {
		s, err := db.Load(id)
		if err != nil || s.Manifest.ID != uint64(s.Manifest.Step) {
			t.Errorf("checkpoint %d: %v", id, err)
		}
		ids = append(ids, id)
	}
	return ids
}

// Copies that are made while another writes the file as fast as it can, and
// deletes and compacts, are whole, and none is older than what had been saved.
func TestCopyBesideSaves(t *testing.T) {
	for name, o := range map[string]OpenOptions{"raw": small, "compressed": {ChunkBytes: small.ChunkBytes, TxBytes: small.TxBytes, Compress: true}} {
		dir := memdir.OnDisk(t) // in memory, saves are so fast that copies may give up
		path := filepath.Join(dir, "c.db")
		db := open(t, path, o)
		save(t, db, 1)
		var saved atomic.Uint64
		var stop atomic.Bool
		var all sync.WaitGroup
		all.Go(func() {
			for step := 2; !stop.Load(); step++ {
				m, src := at(step)
				src.add("large", 1<<18, uint64(step))
				id, err := db.Save(ctxForever, m, src)
				if err == nil {
					saved.Store(id)
					_, _, err = db.Prune(ctxForever, Keep{Last: 3})
				}
				if err == nil && step%40 == 0 {
					err = db.Compact(ctxForever)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
		held := 0
		for i, until := 0, time.Now().Add(time.Duration(testall.Or(250, 1000))*time.Millisecond); time.Now().Before(until); i++ {
			before := saved.Load()
			to := filepath.Join(dir, fmt.Sprint(i))
			n, err := Copy(t.Context(), path, to, func(s Skipped) { t.Errorf("%s: skipped %v", name, s) })
			if errors.Is(err, ErrHeld) {
				held++
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if ids := wantCopy(t, to); len(ids) != n || n == 0 || ids[n-1] < before {
				t.Errorf("%s: copied %d, %v; %d had been saved", name, n, ids, before)
			}
			if err := os.Remove(to); err != nil {
				t.Fatal(err)
			}
		}
		stop.Store(true)
		all.Wait()
		db.Close()
		t.Logf("%s: %d saves, copies gave up %d times", name, saved.Load(), held)
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
}

// A copy leaves out what is damaged, and says so.
func TestCopyOfDamage(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "c.db"), filepath.Join(dir, "copy.db")
	if _, err := Copy(t.Context(), path, to, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("no file: %v", err)
	}
	db := open(t, path, small)
	if _, err := Copy(t.Context(), path, to, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("an empty file: %v", err)
	}
	save(t, db, 1)
	save(t, db, 2)
	spoilStep(t, path, 2)
	var skipped []Skipped
	n, err := Copy(t.Context(), path, to, func(s Skipped) { skipped = append(skipped, s) })
	if err != nil || n != 1 || len(skipped) != 1 || skipped[0].ID != 2 || !errors.Is(skipped[0].Err, ErrDamaged) {
		t.Errorf("copied %d, skipped %v, %v", n, skipped, err)
	}
	if ids := wantCopy(t, to); len(ids) != 1 || ids[0] != 1 {
		t.Errorf("copied %v", ids)
	}
	if _, err := Copy(t.Context(), path, to, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("copied over a file: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Copy(ended, path, to+"2", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	spoilStep(t, path, 1)
	if _, err := Copy(t.Context(), path, to+"2", nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("nothing whole: %v", err)
	}
	if err := os.WriteFile(path, []byte("not a checkpoint file"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Copy(t.Context(), path, to+"2", nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("garbage: %v", err)
	}
	if left, err := filepath.Glob(to + "?*"); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A file that gets the copy's name while it is made stays, what a killed copy of
// the same process id left does not count, and a copy may have any name beside
// the file that it is of.
func TestCopyReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "c.db"), filepath.Join(dir, "copy.db")
	db := open(t, path, small)
	save(t, db, 1)
	save(t, db, 2)
	left := open(t, fmt.Sprintf("%s.berth-copy-%d", to, os.Getpid()), small)
	save(t, left, 7)
	left.Close()
	spoilStep(t, path, 2)
	for name, make := range map[string]func(context.Context, string, string, func(Skipped)) (int, error){"Copy": Copy, "Salvage": Salvage} {
		if name == "Salvage" {
			db.Close()
		}
		_, err := make(t.Context(), path, to, func(Skipped) {
			if err := os.WriteFile(to, []byte("a run's"), 0o644); err != nil {
				t.Fatal(err)
			}
		})
		if b, e := os.ReadFile(to); !errors.Is(err, fs.ErrExist) || string(b) != "a run's" {
			t.Errorf("%s: %v, and the file is %q, %v", name, err, b, e)
		}
		if err := os.Remove(to); err != nil {
			t.Fatal(err)
		}
		for _, to := range []string{to, path + ".whole" + name, path + ".fresh" + name} {
			if _, err := make(t.Context(), path, to, nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if ids := wantCopy(t, to); len(ids) != 1 || ids[0] != 1 {
				t.Errorf("%s: copied %v", name, ids)
			}
		}
		if err := os.Remove(to); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.berth-*")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
