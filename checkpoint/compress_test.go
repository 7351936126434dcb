package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

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

func TestCompressed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	first, err := db.Save(t.Context(), Manifest{Step: 1}, smooth(1))
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	db = open(t, path, packing)
	second, err := db.Save(t.Context(), Manifest{Step: 2}, smooth(2))
	if err != nil {
		t.Fatal(err)
	}
	third, err := db.Save(t.Context(), Manifest{Step: 3}, smooth(2))
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	db = open(t, path, OpenOptions{ReadOnly: true})
	for id, want := range map[uint64]struct{ format, step int }{first: {1, 1}, second: {2, 2}, third: {2, 2}} {
		s, err := db.Load(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := sameTensors(s, smooth(want.step)); err != nil {
			t.Errorf("checkpoint %d: %v", id, err)
		}
		m := s.Manifest
		if m.Format != want.format {
			t.Errorf("checkpoint %d has format %d, want %d", id, m.Format, want.format)
		}
		t.Logf("checkpoint %d: %d bytes, %d new, %d stored", id, m.Bytes, m.Fresh, m.Stored)
	}
	s, _ := db.Load(second)
	if m := s.Manifest; m.Fresh != 4096+12000+160+4 || m.Stored >= 12000+1000 || m.Stored < 12000 {
		t.Errorf("of %d new bytes %d were stored", m.Fresh, m.Stored)
	}
	if s, _ := db.Load(third); s.Manifest.Fresh != 0 || s.Manifest.Stored != 0 {
		t.Errorf("the same contents again: %d new bytes, %d stored", s.Manifest.Fresh, s.Manifest.Stored)
	}
	if err := db.Verify(t.Context(), 0, nil); err != nil {
		t.Error(err)
	}
}

// TestCompressedDamage puts wrong frames in the place of a compressed chunk.
func TestCompressedDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, packing)
	id, err := db.Save(t.Context(), Manifest{}, smooth(1))
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Load(id)
	if err != nil {
		t.Fatal(err)
	}
	h := s.Manifest.Tensors[0].Chunks[1].Hash
	good := pack(make([]byte, 4096))
	bomb := pack(make([]byte, 64<<20))
	for name, frame := range map[string][]byte{
		"empty": {}, "noise": []byte("no frame at all"), "short": good[:len(good)-2], "larger": bomb,
		"other": pack(bytes.Repeat([]byte{1}, 4096)), "uncompressed": make([]byte, 5000),
	} {
		err := db.update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketChunks).Bucket(h[:]).Put(keyZstd, frame) })
		if err != nil {
			t.Fatal(err)
		}
		err = s.Read("flat", 4096, make([]byte, 4096))
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), `tensor "flat": chunk 1`) {
			t.Errorf("%s: %v", name, err)
		}
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
