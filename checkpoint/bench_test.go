package checkpoint

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

// big is a large Source whose contents cost no more than a copy.
type big struct {
	n, size int
	salt    byte
	page    []byte
}

func (s *big) Tensors() []Tensor {
	var ts []Tensor
	for i := range s.n {
		ts = append(ts, Tensor{fmt.Sprint("w", i), shape.F32(s.size / 4), "parameter"})
	}
	return ts
}

func (s *big) Read(name string, off int64, dst []byte) error {
	if s.page == nil {
		s.page = make([]byte, 8<<20)
		x := uint64(1)
		for i := 0; i < len(s.page); i += 8 {
			x = x*6364136223846793005 + 1442695040888963407
			binary.LittleEndian.PutUint64(s.page[i:], x)
		}
	}
	copy(dst, s.page)
	copy(dst, fmt.Sprint(name, off, s.salt))
	return nil
}

// BenchmarkSaveLoad measures 384 MiB: saved new, saved unchanged, and loaded.
func BenchmarkSaveLoad(b *testing.B) {
	src := &big{n: 12, size: 32 << 20}
	total := int64(src.n) * int64(src.size)
	b.Run("save", func(b *testing.B) {
		b.SetBytes(total)
		for i := range b.N {
			b.StopTimer()
			db := open(b, filepath.Join(b.TempDir(), "c.db"), OpenOptions{})
			src.salt = byte(i)
			b.StartTimer()
			if _, err := db.Save(ctxForever, Manifest{}, src); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			db.Close()
			b.StartTimer()
		}
	})
	db := open(b, filepath.Join(b.TempDir(), "c.db"), OpenOptions{})
	id, err := db.Save(ctxForever, Manifest{}, src)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("again", func(b *testing.B) {
		b.SetBytes(total)
		for range b.N {
			if _, err := db.Save(ctxForever, Manifest{}, src); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("load", func(b *testing.B) {
		b.SetBytes(total)
		dst := make([]byte, src.size)
		for range b.N {
			s, err := db.Load(id)
			if err != nil {
				b.Fatal(err)
			}
			for _, t := range s.Tensors() {
				if err := s.Read(t.Name, 0, dst); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
