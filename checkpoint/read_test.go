package checkpoint

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

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
