package safetensors

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/berth-ml/berth/engine/shape"
)

// packers compress the contents of a file.
var packers = map[string]func(t *testing.T, plain []byte) []byte{
	"gz": func(t *testing.T, plain []byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	},
	"zst": func(t *testing.T, plain []byte) []byte {
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		return w.EncodeAll(plain, nil)
	},
}

// plainFile is a file of three tensors, whose names are not in the order of their
// contents.
func plainFile(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "w.safetensors")
	var entries []Entry
	for i, name := range []string{"c", "a", "b"} {
		v := make([]float32, 1000*(i+1))
		for k := range v {
			v[k] = float32(i + k)
		}
		entries = append(entries, Entry{Name: name, Meta: shape.F32(len(v)), Bytes: shape.Bytes(v)})
	}
	if err := WriteFile(path, entries, nil); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func written(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "w.safetensors.x")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStream(t *testing.T) {
	plain := plainFile(t)
	whole, err := Open(t.Context(), written(t, plain))
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	for format, pack := range packers {
		path := written(t, pack(t, plain))
		if !Compressed(path) {
			t.Errorf("%s is not recognised", format)
		}
		s, err := OpenStream(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var names []string
			for {
				x, err := s.Next(t.Context())
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, x.Name)
				if x.Name == "a" {
					continue // passed over
				}
				got := make([]float32, x.Shape.Elems())
				if err := s.ReadWeights(got); err != nil {
					t.Fatal(err)
				}
				if want, err := whole.Float32(x.Name); err != nil || !slices.Equal(got, want) {
					t.Errorf("%s: %s has other contents, %v", format, x.Name, err)
				}
			}
			if len(names) != 3 || names[0] != s.Tensors()[0].Name {
				t.Errorf("%s: %v", format, names)
			}
			if err := s.Rewind(); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.read; got < 2*int64(len(plain)) || got > 3*int64(len(plain)) {
			t.Errorf("%s: %d bytes in two passes over %d", format, got, len(plain))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := Open(t.Context(), path); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "decompress it first") {
			t.Errorf("%s: opened as a plain file: %v", format, err)
		}
	}
}

// toTheEnd reads all of a stream.
func toTheEnd(t *testing.T, path string) error {
	s, err := OpenStream(t.Context(), path)
	if err != nil {
		return err
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing tells again: %v", err)
		}
	}()
	for {
		if _, err := s.Next(t.Context()); err != nil {
			return err
		}
	}
}

// Passing over contents, which can be very many of a small file, ends with its
// context.
func TestStreamEndsWithItsContext(t *testing.T) {
	s, err := OpenStream(t.Context(), written(t, packers["gz"](t, plainFile(t))))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	cancel(over)
	if _, err := s.Next(ctx); !errors.Is(err, over) {
		t.Errorf("%v", err)
	}
}

// A file that is cut off or damaged anywhere is found out at the end, at the latest.
func TestDamagedStream(t *testing.T) {
	plain := plainFile(t)
	for format, pack := range packers {
		packed := pack(t, plain)
		if err := toTheEnd(t, written(t, packed)); err != io.EOF {
			t.Fatal(format, err)
		}
		for _, behind := range []string{"x", "a text that is not compressed"} {
			if err := toTheEnd(t, written(t, append(slices.Clone(packed), behind...))); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "more bytes follow") && !strings.Contains(err.Error(), "other bytes follow") {
				t.Errorf("%s, %q behind it: %v", format, behind, err)
			}
		}
		for name, bad := range map[string][]byte{
			"cut off":        packed[:len(packed)-3],
			"half":           packed[:len(packed)/2],
			"longer":         pack(t, append(slices.Clone(plain), 1)),
			"shorter":        pack(t, plain[:len(plain)-1]),
			"headless":       pack(t, plain[:5]),
			"another kind":   pack(t, []byte("a text that is compressed")),
			"another sum":    append(slices.Clone(packed[:len(packed)-1]), packed[len(packed)-1]^1),
			"only its magic": packed[:4],
		} {
			if err := toTheEnd(t, written(t, bad)); !errors.Is(err, ErrFormat) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: %v", format, name, err)
			}
		}
	}
	if err := toTheEnd(t, written(t, plain)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "neither") {
		t.Errorf("a plain file: %v", err)
	}
	if err := toTheEnd(t, filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if Compressed(written(t, plain)) || Compressed(t.TempDir()) {
		t.Error("a plain file or a folder counts as compressed")
	}
}

// A long header that is no object is refused before it takes memory.
func TestLongHeader(t *testing.T) {
	plain := append(binary.LittleEndian.AppendUint64(nil, 50<<20), make([]byte, 50<<20)...)
	path := filepath.Join(t.TempDir(), "w.safetensors.gz")
	if err := os.WriteFile(path, packers["gz"](t, plain), 0o644); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := OpenStream(t.Context(), path)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err == nil || !strings.Contains(err.Error(), "does not begin with '{'") || took > 1<<20 {
		t.Errorf("%v, %d bytes are taken", err, took)
	}
}
