package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

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
		for _, id := range db.index.head.IDs {
			copies = append(copies, spares(t, db, id)...)
		}
		for h, s := range db.index.chunks {
			if s.refs > 0 && !s.good && !slices.Contains(copies, h) {
				t.Errorf("step %d: chunk %v would be read again", step, h)
			}
		}
		save(t, db, step)
	}
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

func TestPruneAndCompact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	for step := 1; step <= 12; step++ {
		m, s := at(step)
		m.Metrics["loss"] = math.Abs(float64(step) - 4.2) // best at 4, then 5, then 3
		m.Best.Minimize = true
		if _, err := db.Save(t.Context(), m, s); err != nil {
			t.Fatal(err)
		}
	}
	b, _, err := db.Best(t.Context())
	if err != nil || b.Manifest.Step != 4 {
		t.Fatalf("Best: %+v %v", b, err)
	}
	n, _, err := db.Prune(ctxForever, Keep{Last: 2, Best: 2, Every: 10})
	if err != nil || n != 7 {
		t.Fatalf("Prune: %d %v", n, err)
	}
	ms, skipped, err := db.List()
	if err != nil || len(skipped) > 0 {
		t.Fatal(skipped, err)
	}
	var steps []int
	for _, m := range ms {
		steps = append(steps, m.Step)
	}
	if got := fmt.Sprint(steps); got != "[4 5 10 11 12]" {
		t.Fatalf("kept %s", got)
	}
	before := fileSize(t, path)
	snap, err := db.Load(12)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := fileSize(t, path); after >= before {
		t.Errorf("compacting: %d bytes before, %d after", before, after)
	}
	_, src := at(12)
	if err := sameTensors(snap, src); err != nil {
		t.Errorf("a snapshot from before compacting: %v", err)
	}
	if id := save(t, db, 13); id != 13 {
		t.Errorf("id %d after compacting", id)
	}
	if _, err := Open(path, OpenOptions{}); !errors.Is(err, ErrHeld) {
		t.Errorf("after compacting the file is not held: %v", err)
	}
	if err := db.Verify(t.Context(), 0, nil); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(path + ".*")
	if err != nil || len(left) != 1 { // the process id
		t.Errorf("left behind: %v %v", left, err)
	}
}

// Pruned room is used again: the file does not grow with the number of saves.
func TestSizeIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	var settled int64
	for step := 1; step <= 90; step++ {
		save(t, db, step)
		if _, _, err := db.Prune(ctxForever, Keep{Last: 3}); err != nil {
			t.Fatal(err)
		}
		if step == 30 {
			settled = fileSize(t, path)
		}
	}
	if got := fileSize(t, path); got > settled*3/2 || got > 40*20_000+growBy {
		t.Errorf("%d bytes after 90 saves, %d after 30", got, settled)
	}
}

// TestFileSizeIsBounded saves many times.
func TestFileSizeIsBounded(t *testing.T) {
	t.Parallel()
	saves := testall.Or(120, 1000)
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, OpenOptions{ChunkBytes: 64 << 10})
	const elems = 64 << 10
	state := make([]float32, elems)
	largest := int64(0)
	for step := range saves {
		state[step*97%elems]++
		if _, err := db.Save(t.Context(), Manifest{Step: step}, &mem{
			tensors: []Tensor{{"w", shape.F32(elems), "parameter"}}, data: map[string][]byte{"w": shape.Bytes(state)},
		}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := db.Prune(ctxForever, Keep{Last: 3}); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, st.Size())
	}
	if limit := int64(8 * elems * 4); largest > limit {
		t.Errorf("three checkpoints of %d bytes took up to %d in the file, want at most %d", elems*4, largest, limit)
	}
	t.Logf("at most %d bytes", largest)
}

func TestTidyGivesRoomBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, OpenOptions{})
	var last uint64
	for step := range 4 {
		src := &mem{}
		src.add("w", 1<<20, uint64(step))
		id, err := db.Save(t.Context(), Manifest{Step: step}, src)
		if err != nil {
			t.Fatal(err)
		}
		last = id
	}
	if tidied, err := db.Tidy(t.Context()); err != nil || tidied {
		t.Errorf("tidied a full file: %v %v", tidied, err)
	}
	if _, _, err := db.Prune(ctxForever, Keep{Last: 1}); err != nil {
		t.Fatal(err)
	}
	if tidied, err := db.Tidy(t.Context()); err != nil || !tidied {
		t.Errorf("three quarters are free, and it was left so: %v %v", tidied, err)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st.Size() > 6<<20 {
		t.Errorf("4 MiB take %d bytes", st.Size())
	}
	src := &mem{}
	src.add("w", 1<<20, 3)
	if s, err := db.Load(last); err != nil || sameTensors(s, src) != nil {
		t.Errorf("after it: %v", err)
	}
}
