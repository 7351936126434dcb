package checkpoint

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files")

// model is what a file should hold.
type model struct {
	t    *rapid.T
	path string
	db   *DB
	has  map[uint64]*mem
	next uint64
}

func (m *model) save(t *rapid.T) {
	src := &mem{}
	for i := range rapid.IntRange(0, 5).Draw(t, "tensors") {
		elems := rapid.SampledFrom([]int{0, 1, 7, 1024, 1025, 3000}).Draw(t, "elems")
		src.add(fmt.Sprint("t", i), elems, rapid.Uint64Range(0, 3).Draw(t, "contents"))
	}
	if rapid.IntRange(0, 4).Draw(t, "fails") == 0 && len(src.tensors) > 0 {
		src.fail = src.tensors[len(src.tensors)-1].Name
	}
	fails := src.fail != "" && len(src.data[src.fail]) > 0
	id, err := m.db.Save(ctxForever, Manifest{Step: int(m.next)}, src)
	if fails != (err != nil) || (err != nil && !errors.Is(err, errSource)) {
		t.Fatalf("save: %v, failing %v", err, fails)
	}
	if err != nil {
		return
	}
	if id != m.next {
		t.Fatalf("id %d, want %d", id, m.next)
	}
	m.has[id] = src
	m.next++
}

func (m *model) ids() []uint64 {
	ids := make([]uint64, 0, len(m.has))
	for id := range m.has {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (m *model) prune(t *rapid.T) {
	k := Keep{Last: rapid.IntRange(0, 4).Draw(t, "last"), Every: rapid.IntRange(0, 4).Draw(t, "every")}
	ids := m.ids()
	if _, _, err := m.db.Prune(ctxForever, k); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if i < len(ids)-max(k.Last, 1) && (k.Every == 0 || int(id)%k.Every != 0) {
			delete(m.has, id)
		}
	}
}

func (m *model) reopen(t *rapid.T) {
	if err := m.db.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if m.db, err = Open(m.path, OpenOptions{ChunkBytes: rapid.SampledFrom([]int{1000, 4096}).Draw(t, "chunk"), TxBytes: 8192}); err != nil {
		t.Fatal(err)
	}
}

func (m *model) check(t *rapid.T) {
	ms, skipped, err := m.db.List()
	if err != nil || len(skipped) > 0 {
		t.Fatal(skipped, err)
	}
	var ids []uint64
	uses := map[Hash]int{}
	for _, man := range ms {
		ids = append(ids, man.ID)
		s, err := m.db.Load(man.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := sameTensors(s, m.has[man.ID]); err != nil {
			t.Fatal(err)
		}
		for _, e := range s.Manifest.Tensors {
			for _, c := range e.Chunks {
				uses[c.Hash]++
			}
		}
		for _, h := range spares(t, m.db, man.ID) {
			if h != (Hash{}) {
				uses[h]++
			}
		}
	}
	if !slices.Equal(ids, m.ids()) {
		t.Fatalf("checkpoints %v, want %v", ids, m.ids())
	}
	if len(m.db.chunks) != len(uses) {
		t.Fatalf("%d chunks are stored, %d are used", len(m.db.chunks), len(uses))
	}
	for h, s := range m.db.chunks {
		if s.refs != uses[h] {
			t.Fatalf("chunk %v has %d references, is used %d times", h, s.refs, uses[h])
		}
	}
	if err := m.db.verifyPages(); err != nil {
		t.Fatal(err)
	}
}

// TestModel runs random sequences of changes against a map.
func TestModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		m := &model{t: t, path: filepath.Join(dir, fmt.Sprint(round)), has: map[uint64]*mem{}, next: 1}
		var err error
		if m.db, err = Open(m.path, small); err != nil {
			t.Fatal(err)
		}
		defer func() {
			m.db.Close()
			os.Remove(m.path)
		}()
		t.Repeat(map[string]func(*rapid.T){
			"save":   m.save,
			"again":  m.save,
			"prune":  m.prune,
			"reopen": m.reopen,
			"compact": func(t *rapid.T) {
				if err := m.db.Compact(ctxForever); err != nil {
					t.Fatal(err)
				}
			},
			"": m.check,
		})
	})
}

// Loads run beside saves and prunes.
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

// A file of format 1, as first released, must be read for ever.
func TestGolden(t *testing.T) {
	golden := filepath.Join("testdata", "format1.db.gz")
	if *update {
		writeGolden(t, golden)
	}
	f, err := os.Open(golden)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "c.db")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, o := range []OpenOptions{{ReadOnly: true}, {}} {
		db := open(t, path, o)
		for _, id := range []uint64{2, 4, 5} {
			s, err := db.Load(id)
			if err != nil {
				t.Fatal(err)
			}
			if err := same(s, int(id)); err != nil {
				t.Fatal(err)
			}
		}
		goldenRecords(t, db.im)
		db.Close()
	}
}

// goldenRecords compares the records' text with what the format's
// description promises.
func goldenRecords(t *testing.T, im *image) {
	var got strings.Builder
	for _, r := range [][2][]byte{{bucketBerth, keyFormat}, {bucketBerth, keyHead}, {bucketManifests, idKey(2)}, {bucketTensors, idKey(2)}} {
		payload, err := im.record(r[0], r[1])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s/%q\n%s\n", r[0], r[1], payload)
	}
	name := filepath.Join("testdata", "format1.txt")
	if *update {
		if err := os.WriteFile(name, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("records are\n%s, want\n%s", got.String(), want)
	}
}

func writeGolden(t *testing.T, name string) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(victim(t)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestUnknownFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	err := db.update(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketBerth).Put(keyFormat, seal(bucketBerth, keyFormat, []byte(`{"format":3}`)))
	})
	if !errors.Is(err, ErrFormat) { // update looks at the file after the change
		t.Fatal(err)
	}
	db.Close()
	for _, o := range []OpenOptions{{}, {ReadOnly: true}} {
		_, err := Open(path, o)
		if !errors.Is(err, ErrFormat) || !containsAll(err.Error(), "format 3", "reads 1 to 2") {
			t.Errorf("format 3: %v", err)
		}
	}
}
