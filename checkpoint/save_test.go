package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-ml/berth/internal/memdir"
	"github.com/berth-ml/berth/internal/testall"
	"go.etcd.io/bbolt"
)

func TestSaveLoadReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	if _, _, err := db.Latest(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Fatalf("Latest of an empty file: %v", err)
	}
	for step := 1; step <= 3; step++ {
		if id := save(t, db, step); id != uint64(step) {
			t.Fatalf("id %d at step %d", id, step)
		}
	}
	for _, o := range []OpenOptions{small, {ReadOnly: true}} {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = open(t, path, o)
		for step := 1; step <= 3; step++ {
			s, err := db.Load(uint64(step))
			if err != nil {
				t.Fatal(err)
			}
			if err := same(s, step); err != nil {
				t.Fatal(err)
			}
		}
		s, skipped, err := db.Latest(t.Context())
		if err != nil || len(skipped) > 0 || s.Manifest.ID != 3 {
			t.Fatalf("Latest: %v %v", skipped, err)
		}
		if err := db.Verify(t.Context(), 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Save(t.Context(), Manifest{}, &mem{}); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("save into a read-only file: %v", err)
	}
	if _, err := db.Load(9); !errors.Is(err, ErrNotFound) {
		t.Fatalf("load of an unknown checkpoint: %v", err)
	}
	db.Close()
	if _, err := db.Load(1); !errors.Is(err, ErrClosed) {
		t.Fatalf("load after Close: %v", err)
	}
}

// Frozen tensors are stored once, whatever the number of checkpoints.
func TestSharing(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "c.db"), small)
	for step := 1; step <= 5; step++ {
		save(t, db, step)
	}
	ms, _, err := db.List()
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range ms {
		want := int64(5000+3) * 4
		if i == 0 {
			want += 3000 * 4
		}
		if m.Stored != want || m.Bytes != 8003*4 {
			t.Errorf("checkpoint %d stored %d of %d bytes, want %d", m.ID, m.Stored, m.Bytes, want)
		}
	}
	m, src := at(6)
	src.data["small"] = src.data["frozen"][:12] // a chunk of other size with new contents
	src.add("twin", 5000, 60)                   // the contents of "moving" at this step
	id, err := db.Save(t.Context(), m, src)
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Load(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := sameTensors(s, src); err != nil {
		t.Fatal(err)
	}
	if s.Manifest.Stored != 20012 {
		t.Errorf("stored %d bytes", s.Manifest.Stored)
	}
}

// A save that fails leaves what was there, and no chunks behind.
func TestSaveAllOrNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	save(t, db, 1)
	chunks := len(db.index.chunks)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		says string
		make func(*mem)
	}{
		"failing source": {t.Context(), "scripted failure", func(s *mem) { // its own words, and no others
			s.add("bad", 100, 3)
			s.fail = "bad"
		}},
		"name twice": {t.Context(), path + ": saving checkpoint 2 of step 2: ", func(s *mem) { s.tensors = append(s.tensors, s.tensors[0]) }},
		"cancelled":  {cancelled, path + ": saving checkpoint 2 of step 2: ", func(*mem) {}},
	} {
		m, s := at(2)
		c.make(s)
		_, err := db.Save(c.ctx, m, s)
		if err == nil {
			t.Fatalf("%s: saved", name)
		}
		if !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: error does not say of what: %v", name, err)
		}
		if len(db.index.chunks) != chunks {
			t.Errorf("%s: %d chunks, want %d", name, len(db.index.chunks), chunks)
		}
		newest, skipped, err := db.Latest(t.Context())
		if err != nil || len(skipped) > 0 {
			t.Fatalf("%s: %v %v", name, skipped, err)
		}
		if err := same(newest, 1); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if id := save(t, db, 2); id != 2 {
		t.Errorf("id %d after failed saves, want 2", id)
	}
}

// A chunk damaged on the disk is not shared with new checkpoints: it is
// written again, which heals the old ones too.
func TestDamagedChunkIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	save(t, db, 1)
	_, src := at(1)
	db.Close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(b, src.data["frozen"][:64])
	if i < 0 {
		t.Fatal("the contents are not in the file")
	}
	b[i] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, small)
	_, skipped, err := db.Latest(t.Context())
	if !errors.Is(err, ErrNotFound) || len(skipped) != 1 || !errors.Is(skipped[0].Err, ErrDamaged) {
		t.Fatalf("Latest of a damaged file: %v %v", skipped, err)
	}
	if msg := skipped[0].String(); !containsAll(msg, path, "checkpoint 1", `tensor "frozen"`, "chunk 0 of 3") {
		t.Errorf("the message lacks something: %s", msg)
	}
	save(t, db, 2)
	if err := db.Verify(t.Context(), 0, nil); err != nil {
		t.Error(err)
	}
}

// lender lends every part of a tensor but each third, which it lets be read.
type lender struct {
	*mem
	calls, reads, fails int
}

var errLender = errors.New("out of paper")

func (l *lender) Lend(name string, off int64, n int) ([]byte, error) {
	if l.calls++; l.calls == l.fails {
		return nil, errLender
	}
	if l.calls%3 == 0 {
		return nil, nil
	}
	return l.data[name][off : off+int64(n)], nil
}

func (l *lender) Read(name string, off int64, dst []byte) error {
	l.reads++
	return l.mem.Read(name, off, dst)
}

// TestLender: what is lent and what is read come to the same file.
func TestLender(t *testing.T) {
	for _, o := range []OpenOptions{small, {ChunkBytes: 4096, TxBytes: 4096}, {ChunkBytes: 4096, TxBytes: 16384, Compress: true}, {}} {
		db := open(t, filepath.Join(t.TempDir(), "c.db"), o)
		for step := 1; step <= 3; step++ {
			m, src := at(step)
			l := &lender{mem: src}
			id, err := db.Save(ctxForever, m, l)
			if err != nil {
				t.Fatal(err)
			}
			if l.reads == 0 && o.ChunkBytes > 0 || l.reads == l.calls {
				t.Errorf("%d of %d pieces were read", l.reads, l.calls)
			}
			s, err := db.Load(id)
			if err == nil {
				err = sameTensors(s, src)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		m, src := at(4)
		if _, err := db.Save(ctxForever, m, &lender{mem: src, fails: 2}); !errors.Is(err, errLender) {
			t.Errorf("got %v", err)
		}
		save(t, db, 5)
		if err := db.Verify(ctxForever, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
}

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

// movesOf counts how often bbolt moves a key of a transaction that puts pieces in
// their order into an empty bucket: each put moves the greater keys.
func movesOf(pieces []piece) (moves int) {
	var keys []Hash
	for _, p := range pieces {
		i, _ := slices.BinarySearchFunc(keys, p.hash, func(a, b Hash) int { return bytes.Compare(a[:], b[:]) })
		moves += len(keys) - i
		keys = slices.Insert(keys, i, p.hash)
	}
	return moves
}

// TestPutChunksMovesNoKeys: the work on a save of many small tensors grows with
// their number and not with its square, and all of them are read back.
func TestPutChunksMovesNoKeys(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "c.db"), small)
	pieces := make([]piece, 2000)
	for i := range pieces {
		data := fmt.Appendf(nil, "contents %d", i)
		pieces[i] = piece{hash: hashOf(data), data: data}
	}
	if movesOf(pieces) < len(pieces) {
		t.Fatal("the pieces are in order already")
	}
	if err := db.update(func(tx *bbolt.Tx) error { return putChunks(tx, pieces) }); err != nil {
		t.Fatal(err)
	}
	if n := movesOf(pieces); n != 0 {
		t.Errorf("%d keys are moved for %d pieces", n, len(pieces))
	}
	for _, p := range pieces {
		got := make([]byte, len(p.data))
		if err := db.im.chunk(p.hash, got); err != nil || !bytes.Equal(got, p.data) {
			t.Fatalf("%q is read back as %q, %v", p.data, got, err)
		}
	}
}
