package checkpoint

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
)

// beside opens a file that another DB writes to.
func beside(t *testing.T, path string) *DB {
	t.Helper()
	if _, err := Open(path, OpenOptions{ReadOnly: true}); !errors.Is(err, ErrHeld) {
		t.Errorf("without Beside: %v, want ErrHeld", err)
	}
	return open(t, path, OpenOptions{ReadOnly: true, Beside: true})
}

// What is read while another process saves, deletes and compacts as fast as it can is
// what was saved, to the bit, or said to be deleted.
func TestReadBesideSaves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	w := open(t, path, small)
	save(t, w, 1)
	var saved atomic.Uint64
	saved.Store(1)
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for step := 2; ; step++ {
			select {
			case <-stop:
				return
			default:
			}
			m, src := at(step)
			id, err := w.Save(ctxForever, m, src)
			if err == nil {
				saved.Store(id)
				_, _, err = w.Prune(ctxForever, Keep{Last: 3})
			}
			if err == nil && step%40 == 0 {
				err = w.Compact(ctxForever)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	var read, deleted atomic.Int64
	until := time.Now().Add(time.Duration(testall.Or(200, 3000)) * time.Millisecond)
	for range 2 {
		all.Go(func() {
			for time.Now().Before(until) {
				db := beside(t, path) // after a compaction, the path leads to another file
				for range 10 {
					before := saved.Load()
					if err := readAll(db, before); errors.Is(err, ErrDeleted) || errors.Is(err, ErrNotFound) {
						deleted.Add(1)
					} else if err != nil {
						t.Error(err)
						return
					} else {
						read.Add(1)
					}
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	time.Sleep(time.Until(until))
	time.Sleep(time.Millisecond)
	close(stop)
	all.Wait()
	t.Logf("%d saves, %d read, %d deleted meanwhile", saved.Load(), read.Load(), deleted.Load())
	if read.Load() == 0 {
		t.Error("nothing could be read")
	}
}

// readAll lists and reads in each way.
func readAll(db *DB, before uint64) error {
	list, skipped, err := db.List()
	if err != nil {
		return err
	}
	ascends := slices.IsSortedFunc(list, func(a, b Manifest) int { return int(a.ID) - int(b.ID) })
	if len(list) == 0 || len(skipped) > 0 || !ascends || len(list) > 5 {
		return errors.New("the list is wrong")
	}
	for _, find := range []func() (*Snapshot, []Skipped, error){
		func() (*Snapshot, []Skipped, error) { return db.Latest(ctxForever) },
		func() (*Snapshot, []Skipped, error) { return db.Best(ctxForever) },
		func() (*Snapshot, []Skipped, error) {
			s, err := db.Load(list[0].ID)
			return s, nil, err
		},
	} {
		s, skipped, err := find()
		if err == nil && len(skipped) > 0 {
			err = skipped[0].Err
		}
		if err == nil {
			err = same(s, s.Manifest.Step)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A checkpoint that was loaded and then deleted is said to be deleted, and not damaged.
func TestDeletedWhileItIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	w := open(t, path, small)
	save(t, w, 1)
	db := beside(t, path)
	s, err := db.Load(1)
	if err != nil {
		t.Fatal(err)
	}
	save(t, w, 2)
	if err := same(s, 1); err != nil {
		t.Error(err)
	}
	if _, _, err := w.Prune(t.Context(), Keep{Last: 1}); err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 4*5000)
	if err := s.Read("moving", 0, dst); !errors.Is(err, ErrDeleted) || errors.Is(err, ErrDamaged) {
		t.Errorf("%v, want ErrDeleted", err)
	}
	if s, _, err := db.Latest(t.Context()); err != nil || s.Manifest.ID != 2 {
		t.Errorf("the newest: %v", err)
	}
	if _, err := db.Load(1); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
	if err := db.Verify(t.Context(), 0, nil); !errors.Is(err, ErrHeld) {
		t.Errorf("verifying: %v, want ErrHeld", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.List(); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := db.Save(t.Context(), Manifest{}, nil); err == nil {
		t.Error("saved into a file that is read")
	}
}

// Damage stays damage while another DB writes.
func TestDamageBesideAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	w := open(t, path, small)
	save(t, w, 1)
	save(t, w, 2)
	spoilStep(t, path, 2)
	s, skipped, err := beside(t, path).Latest(t.Context())
	if err != nil || s.Manifest.ID != 1 || len(skipped) != 1 || !errors.Is(skipped[0].Err, ErrDamaged) {
		t.Errorf("%+v, skipped %v, %v", s, skipped, err)
	}
}
