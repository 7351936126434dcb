package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/shape"
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
		Best:         Best{Metric: "loss", Value: 1 / float64(step+1), Step: step, Minimize: true},
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

func fileSize(t testing.TB, path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

// smooth is a source that compresses well, and a tensor that does not.
func smooth(step int) *mem {
	s := numbers("flat", make([]float32, 20000)...)
	s.tensors = append(s.tensors, Tensor{"little", shape.F32(40), "metric"}, Tensor{"one", shape.F32(1), "metric"})
	s.data["little"], s.data["one"] = bytes.Repeat([]byte{byte(step)}, 160), []byte{1, 2, 3, byte(step)}
	s.add("noise", 3000, uint64(step))
	s.data["flat"][17] = byte(step)
	return s
}

var packing = OpenOptions{ChunkBytes: 4096, TxBytes: 16384, Compress: true}

var ctxForever = context.Background()

func containsAll(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x40
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// alone is what a run saves of which checkpoints share nothing: large and
// small tensors.
func alone(step int) (Manifest, *mem) {
	m, _ := at(step)
	s := &mem{}
	for i, elems := range []int{5000, 3, 64, 900, 200, 10} {
		s.add(fmt.Sprintf("t%d", i), elems, uint64(step)*100+uint64(i))
	}
	return m, s
}

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
