package checkpoint

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/berth-ml/berth/internal/memdir"
	"github.com/berth-ml/berth/internal/testall"
)

// TestLargeSaves: what is written past the system's cache is what is read,
// also where pages that had been read before are written again.
func TestLargeSaves(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	path := filepath.Join(memdir.OnDisk(t), "c.db")
	db := open(t, path, OpenOptions{ChunkBytes: 1 << 20, TxBytes: 6 << 20})
	for step := range 5 {
		m, src := at(step)
		src.add("large", 4<<20+step, uint64(step)) // 16 MiB, and no whole number of pages
		id, err := db.Save(ctxForever, m, src)
		if err != nil {
			t.Fatal(err)
		}
		s, err := db.Load(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := sameTensors(s, src); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if _, _, err := db.Prune(ctxForever, Keep{Last: 1}); err != nil { // its pages are the next one's
			t.Fatal(err)
		}
		if step%2 == 1 {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = open(t, path, OpenOptions{ChunkBytes: 1 << 20, TxBytes: 6 << 20})
		}
		if err := db.Verify(ctxForever, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDiskThatWantsAlignment: a disk that refuses to be written to past the
// cache is written to through it.
func TestDiskThatWantsAlignment(t *testing.T) {
	db := open(t, filepath.Join(memdir.OnDisk(t), "c.db"), OpenOptions{})
	calls := 0
	try := func() error {
		calls = 0
		return db.commit(func(*bbolt.Tx) error {
			if calls++; calls == 1 {
				return fmt.Errorf("write: %w", syscall.EINVAL)
			}
			return nil
		}, true)
	}
	if !setDirect(db.file, true) {
		t.Log("the file system does not write past the cache")
		db.cached = true
	}
	setDirect(db.file, false)
	if err := try(); !db.cached || (err == nil) != (calls == 2) {
		t.Errorf("%d attempts, cached %v: %v", calls, db.cached, err)
	}
	if err := try(); err == nil || calls != 1 {
		t.Errorf("an error that has another cause: %d attempts, %v", calls, err)
	}
}
