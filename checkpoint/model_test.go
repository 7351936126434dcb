package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

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
	if len(m.db.index.chunks) != len(uses) {
		t.Fatalf("%d chunks are stored, %d are used", len(m.db.index.chunks), len(uses))
	}
	for h, s := range m.db.index.chunks {
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
