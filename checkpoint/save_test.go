package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
	"go.etcd.io/bbolt"
)

// mem is a Source in memory.
type mem struct {
	tensors []Tensor
	data    map[string][]byte
	fail    string // name of the tensor whose reading fails
}

var errSource = errors.New("scripted failure")

func (s *mem) Tensors() []Tensor { return s.tensors }

func (s *mem) Read(name string, off int64, dst []byte) error {
	if name == s.fail {
		return errSource
	}
	if copy(dst, s.data[name][off:]) != len(dst) {
		return fmt.Errorf("read past the end of %s", name)
	}
	return nil
}

func (s *mem) add(name string, elems int, seed uint64) {
	s.tensors = append(s.tensors, Tensor{name, shape.F32(elems), "parameter"})
	if s.data == nil {
		s.data = map[string][]byte{}
	}
	s.data[name] = noise(elems, seed)
}

// noises are the contents made so far, which nobody changes.
var noises sync.Map

// noise is the contents of a tensor: random bytes, the same for the same seed.
func noise(elems int, seed uint64) []byte {
	type made struct {
		elems int
		seed  uint64
	}
	if b, ok := noises.Load(made{elems, seed}); ok {
		return b.([]byte)
	}
	b := make([]byte, 4*elems)
	r := rand.New(rand.NewPCG(seed, 7))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	if len(b) <= 64<<10 { // larger ones are of one test each
		noises.Store(made{elems, seed}, b)
	}
	return b
}

// at is what a run would save at a step: one frozen tensor, three that change.
func at(step int) (Manifest, *mem) {
	s := &mem{}
	s.add("frozen", 3000, 1)
	s.add("moving", 5000, uint64(step)*10)
	s.add("small", 3, uint64(step)*10+1)
	s.add("empty", 0, 1)
	m := Manifest{Step: step, Epoch: step / 10, Index: step % 10,
		Fingerprints: map[string]string{"model": "m1", "seed": "7"},
		Metrics:      map[string]float64{"loss": 1 / float64(step+1)},
		Best:         Best{"loss", 1 / float64(step+1), step, true},
		Extra:        json.RawMessage(`{"patience":3}`), Config: []byte("model: mlp\n"),
		Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
	return m, s
}

var small = OpenOptions{ChunkBytes: 4096, TxBytes: 16384}

func open(t testing.TB, path string, o OpenOptions) *DB {
	t.Helper()
	db, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func save(t testing.TB, db *DB, step int) uint64 {
	t.Helper()
	m, s := at(step)
	id, err := db.Save(t.Context(), m, s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// same compares a snapshot with what was saved, tensor by tensor and field by field.
func same(s *Snapshot, step int) error {
	m, src := at(step)
	got := s.Manifest
	got.Tensors = nil
	m.Format, m.ID, m.Bytes, m.Fresh, m.Stored, m.Count = got.Format, got.ID, got.Bytes, got.Fresh, got.Stored, len(src.tensors)
	if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", m); a != b {
		return fmt.Errorf("manifest is\n%s, want\n%s", a, b)
	}
	return sameTensors(s, src)
}

func sameTensors(s *Snapshot, src *mem) error {
	if a, b := fmt.Sprint(s.Tensors()), fmt.Sprint(src.tensors); a != b {
		return fmt.Errorf("tensors are %s, want %s", a, b)
	}
	for _, t := range src.tensors {
		dst := make([]byte, t.Meta.Bytes())
		if err := s.Read(t.Name, 0, dst); err != nil {
			return err
		}
		if !bytes.Equal(dst, src.data[t.Name]) {
			return fmt.Errorf("WRONG BITS in tensor %q", t.Name)
		}
	}
	return nil
}

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

func TestManifestFields(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "c.db"), small)
	m := Manifest{Metrics: map[string]float64{"nan": math.NaN(), "inf": math.Inf(-1), "tiny": 5e-324, "third": 1. / 3}}
	id, err := db.Save(t.Context(), m, &mem{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Load(id)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range m.Metrics {
		if got := s.Manifest.Metrics[k]; math.Float64bits(got) != math.Float64bits(v) && !(math.IsNaN(got) && math.IsNaN(v)) {
			t.Errorf("metric %s is %v, want %v", k, got, v)
		}
	}
	if s.Manifest.Time.IsZero() {
		t.Error("no time")
	}
	if _, err := db.Save(t.Context(), Manifest{Extra: []byte("{")}, &mem{}); err == nil {
		t.Error("bad Extra was saved")
	}
}

// A save that fails leaves what was there, and no chunks behind.
func TestSaveAllOrNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	save(t, db, 1)
	chunks := len(db.chunks)
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
		if len(db.chunks) != chunks {
			t.Errorf("%s: %d chunks, want %d", name, len(db.chunks), chunks)
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

func TestHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	for _, o := range []OpenOptions{{}, {ReadOnly: true}} {
		start := time.Now()
		_, err := Open(path, o)
		if !errors.Is(err, ErrHeldHere) || !strings.Contains(err.Error(), "held by this process: ") {
			t.Fatalf("second open: %v", err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("took %v", d)
		}
	}
	db.Close()
	a := open(t, path, OpenOptions{ReadOnly: true})
	open(t, path, OpenOptions{ReadOnly: true})
	if _, err := Open(path, OpenOptions{}); !errors.Is(err, ErrHeld) {
		t.Fatalf("writer beside readers: %v", err)
	}
	a.Close()
	db = open(t, path+"2", small)
	for _, o := range []OpenOptions{{Readers: time.Hour}, {ReadOnly: true, Readers: time.Hour}} {
		if _, err := Open(path+"2", o); !errors.Is(err, ErrHeld) { // at once: it is no reader
			t.Fatalf("beside a writer: %v", err)
		}
	}
	db.Close()
	r := open(t, path+"2", OpenOptions{ReadOnly: true})
	time.AfterFunc(50*time.Millisecond, func() { r.Close() })
	open(t, path+"2", OpenOptions{Readers: time.Minute})
	if _, err := os.Stat(pidPath(path)); !os.IsNotExist(err) {
		t.Errorf("the process id was left behind: %v", err)
	}
	if _, err := Open(path+".no", OpenOptions{ChunkBytes: 1001}); err == nil || !strings.Contains(err.Error(), "no element is cut") {
		t.Errorf("chunks of 1001 bytes: %v", err)
	}
	if _, err := Open(path+".no", OpenOptions{ReadOnly: true}); !errors.Is(err, ErrNotFound) {
		t.Errorf("missing file: %v", err)
	}
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

func fileSize(t testing.TB, path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

func TestExport(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "c.db"), small)
	m, src := at(3)
	src.tensors[2].Role = "optimizer state"
	id, err := db.Save(t.Context(), m, src)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.safetensors")
	if err := db.Export(id, out, "parameter"); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	for _, e := range f.Tensors() {
		names = append(names, e.Name)
		dst := make([]byte, e.Bytes())
		if err := f.Read(e.Name, dst); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dst, src.data[e.Name]) {
			t.Errorf("tensor %q differs", e.Name)
		}
	}
	if got := fmt.Sprint(names); got != "[empty frozen moving]" {
		t.Errorf("exported %s", got)
	}
	if err := db.Export(id, out, "nothing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("export of no role: %v", err)
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
