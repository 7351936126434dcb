package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/berth-ml/berth/engine/graph"
)

func TestReadParts(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "c.db"), small)
	s, err := db.Load(save(t, db, 5))
	if err != nil {
		t.Fatal(err)
	}
	_, src := at(5)
	want := src.data["moving"]
	for _, r := range [][2]int{{0, 1}, {4095, 2}, {4096, 4096}, {100, 9000}, {19999, 1}, {20000, 0}, {0, 20000}} {
		dst := make([]byte, r[1])
		if err := s.Read("moving", int64(r[0]), dst); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dst, want[r[0]:r[0]+r[1]]) {
			t.Fatalf("bytes %v differ", r)
		}
	}
	for _, r := range [][2]int{{-1, 1}, {20000, 1}, {1, 20000}} {
		if err := s.Read("moving", int64(r[0]), make([]byte, r[1])); err == nil {
			t.Fatalf("read of %v went through", r)
		}
	}
}

// A checkpoint that vanished without a trace is missed: the head names it.
func TestLostCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	save(t, db, 1)
	save(t, db, 2)
	if err := db.update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketManifests).Delete(idKey(2)) }); err != nil {
		t.Fatal(err)
	}
	db.Close()
	db = open(t, path, small)
	s, skipped, err := db.Latest(t.Context())
	if err != nil || s.Manifest.ID != 1 || len(skipped) != 1 || skipped[0].ID != 2 {
		t.Fatalf("Latest: %+v %v %v", s, skipped, err)
	}
	if len(db.index.chunks) < 12 {
		t.Errorf("%d chunks: those of the lost checkpoint were deleted", len(db.index.chunks))
	}
}

// The newest checkpoint is damaged: Latest is the one before, and says so;
// Salvage copies that one.
func TestFallBackAndSalvage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.db")
	db := open(t, path, small)
	for step := 1; step <= 3; step++ {
		save(t, db, step)
	}
	_, src := at(3)
	db.Close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, src.data["moving"][4096:4200])+7] ^= 0x80
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, OpenOptions{ReadOnly: true})
	s, skipped, err := db.Latest(t.Context())
	if err != nil || s.Manifest.Step != 2 || len(skipped) != 1 || skipped[0].ID != 3 {
		t.Fatalf("Latest: %+v %v %v", s, skipped, err)
	}
	if err := same(s, 2); err != nil {
		t.Fatal(err)
	}
	if err := db.Verify(t.Context(), 0, nil); !errors.Is(err, ErrDamaged) {
		t.Fatalf("Verify: %v", err)
	}
	out := filepath.Join(dir, "good.db")
	var left []Skipped
	n, err := Salvage(t.Context(), path, out, func(s Skipped) { left = append(left, s) })
	if err != nil || n != 2 || len(left) != 1 || left[0].ID != 3 {
		t.Fatalf("Salvage: %d %v %v", n, left, err)
	}
	good := open(t, out, OpenOptions{ReadOnly: true})
	if err := good.Verify(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Salvage(t.Context(), path, out, nil); err == nil {
		t.Error("Salvage wrote over a file")
	}
}

// Loads run during saves and prunes.
func TestConcurrentLoads(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "c.db"), small)
	save(t, db, 1)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s, _, err := db.Latest(ctxForever)
				if err == nil {
					err = same(s, s.Manifest.Step)
				}
				if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotFound) { // pruned meanwhile
					t.Error(err)
					return
				}
			}
		})
	}
	for step := 2; step <= 30; step++ {
		save(t, db, step)
		if _, _, err := db.Prune(ctxForever, Keep{Last: 2}); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

// Checkpoints up to Best.Since have other values under the name of the metric: none is the best.
func TestBestSince(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "c.db"), small)
	for step, f1 := range []float64{0.9, 0.8, 0.3, 0.4} {
		m, src := at(step + 1)
		m.Step, m.Metrics, m.Best = step+1, map[string]float64{"f1": f1}, Best{Metric: "f1", Value: f1, Step: step + 1}
		if step >= 2 {
			m.Best.Since = 2
		}
		if _, err := db.Save(t.Context(), m, src); err != nil {
			t.Fatal(err)
		}
		list, _, err := db.List()
		if best, want := BestOf(list), []uint64{1, 1, 3, 4}[step]; best != want || err != nil {
			t.Errorf("after step %d: the best is %d, %v, want %d", step+1, best, err, want)
		}
	}
}

// A checkpoint for answers has the averages under the names of the weights, and nothing else
// changes.
func TestAveraged(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "x.db"), OpenOptions{})
	src := &mem{}
	for i, name := range []string{"w", "w/ema", "b", "w/m", "b/ema"} {
		src.add(name, 1000, uint64(i))
	}
	src.tensors[1].Role = graph.Average.String()
	id, err := db.Save(t.Context(), Manifest{Step: 1}, src)
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Load(id)
	if err != nil {
		t.Fatal(err)
	}
	a := s.Averaged()
	for name, of := range map[string]string{"w": "w/ema", "b": "b", "w/m": "w/m", "b/ema": "b/ema"} { // b/ema has another role
		got, want := make([]byte, 4000), make([]byte, 4000)
		if err := errors.Join(a.Read(name, 0, got), src.Read(of, 0, want)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not %s: %v", name, of, err)
		}
	}
	if _, ok := a.Tensor("w/ema"); ok || len(a.Tensors()) != 4 || len(s.Tensors()) != 5 || a.Averaged() != a {
		t.Errorf("tensors %v", a.Tensors())
	}
	if graph.AverageOf("w") != "w/ema" {
		t.Errorf("an average is named %s", graph.AverageOf("w"))
	}
}
