package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
)

// spoilStep flips a bit of what is stored of a step's own tensor.
func spoilStep(t *testing.T, path string, step int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, src := at(step)
	found := 0
	for at := bytes.Index(b, src.data["moving"][:64]); at >= 0; at = bytes.Index(b, src.data["moving"][:64]) {
		b[at] ^= 1
		found++
	}
	if found == 0 {
		t.Fatalf("nothing of step %d is in the file", step)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// idsOf are the ids in a file that can be opened for writing.
func idsOf(t *testing.T, db *DB) (ids []uint64) {
	t.Helper()
	ms, _, err := db.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		ids = append(ids, m.ID)
	}
	return ids
}

// What pruning keeps as the newest and the best is whole.
func TestPruneKeepsWholeOnes(t *testing.T) {
	for _, c := range []struct {
		damaged []int
		keep    Keep
		left    []uint64
		skipped int
	}{
		{[]int{4}, Keep{Last: 1}, []uint64{3, 4}, 1},
		{[]int{3, 4}, Keep{Last: 1}, []uint64{2, 3, 4}, 2},
		{[]int{3}, Keep{Last: 2}, []uint64{2, 3, 4}, 1},
		{[]int{1, 2, 3, 4}, Keep{Last: 1}, []uint64{1, 2, 3, 4}, 4},
		{[]int{2}, Keep{Last: 1}, []uint64{4}, 0},
		{[]int{2}, Keep{Last: 1, Best: 1}, []uint64{1, 2, 4}, 1},
		{[]int{2, 4}, Keep{Last: 1, Best: 1}, []uint64{1, 2, 3, 4}, 2},
	} {
		path := filepath.Join(t.TempDir(), "c.db")
		db := open(t, path, small)
		for step, loss := range []float64{0.2, 0.1, 0.3, 0.4} { // the best is step 2, then 1
			m, src := at(step + 1)
			m.Metrics, m.Best.Minimize = map[string]float64{"loss": loss}, true
			if _, err := db.Save(t.Context(), m, src); err != nil {
				t.Fatal(err)
			}
		}
		db.Close()
		for _, step := range c.damaged {
			spoilStep(t, path, step)
		}
		db = open(t, path, small)
		n, skipped, err := db.Prune(t.Context(), c.keep)
		if err != nil || n != 4-len(c.left) || len(skipped) != c.skipped {
			t.Errorf("%+v: deleted %d, skipped %v, %v", c, n, skipped, err)
		}
		for _, s := range skipped {
			if !errors.Is(s.Err, ErrDamaged) {
				t.Errorf("%+v: skipped %v", c, s)
			}
		}
		if got := idsOf(t, db); fmt.Sprint(got) != fmt.Sprint(c.left) {
			t.Errorf("%+v: left %v", c, got)
		}
		db.Close()
	}
}

// Pruning reads a checkpoint once, and none that this process has written.
func TestPruneReadsOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	for step := 1; step <= 3; step++ {
		save(t, db, step)
	}
	db.Close()
	db = open(t, path, small)
	save(t, db, 4)
	for step := 5; step <= 6; step++ {
		if _, _, err := db.Prune(t.Context(), Keep{Last: 3}); err != nil {
			t.Fatal(err)
		}
		var copies []Hash // which nothing reads
		for _, id := range db.head.IDs {
			copies = append(copies, spares(t, db, id)...)
		}
		for h, s := range db.chunks {
			if s.refs > 0 && !s.good && !slices.Contains(copies, h) {
				t.Errorf("step %d: chunk %v would be read again", step, h)
			}
		}
		save(t, db, step)
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

// Whatever bits of a file are flipped, pruning it leaves the newest and the best
// of its whole checkpoints.
func TestPruneOfAnyDamage(t *testing.T) {
	good := victim(t)
	path := filepath.Join(t.TempDir(), "c.db")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	pruned := 0
	for range testall.Or(40, 200) {
		b := bytes.Clone(good)
		for range 1 + r.IntN(6) {
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, small)
		if err != nil {
			continue
		}
		newest, best := wholeIDs(db)
		n, skipped, err := db.Prune(t.Context(), Keep{Last: 1, Best: 1})
		if err != nil {
			t.Errorf("pruning: %v", err)
		}
		pruned += n
		if a, b := wholeIDs(db); a != newest || b != best {
			t.Errorf("checkpoints %d and %d were the newest and the best, and are %d and %d; %d deleted, skipped %v", newest, best, a, b, n, skipped)
		}
		db.Close()
	}
	if pruned == 0 {
		t.Error("nothing was pruned")
	}
}

// wholeIDs are the newest and the best of the whole checkpoints; 0 if there is
// none.
func wholeIDs(db *DB) (newest, best uint64) {
	if s, _, err := db.Latest(ctxForever); err == nil {
		newest = s.Manifest.ID
	}
	if s, _, err := db.Best(ctxForever); err == nil {
		best = s.Manifest.ID
	}
	return newest, best
}
