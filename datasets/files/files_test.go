package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/berth-ml/berth/datasets/fault"
)

// zstandard packs with some window.
func zstandard(t testing.TB, b []byte, window int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithWindowSize(window), zstd.WithSingleSegment(false), zstd.WithEncoderConcurrency(1))
	if err == nil {
		_, err = w.Write(b)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unpacked is what a file holds, whatever its name.
func unpacked(t testing.TB, contents []byte) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(path, contents, 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Open(context.Background(), path)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(s)
	return string(b), errors.Join(err, s.Close())
}

// Files are unpacked by their contents, of one frame or several, and as they are if they are not
// packed.
func TestOpen(t *testing.T) {
	text := strings.Repeat("1,2,a\n3,4,b\n", 5000)
	packed := zstandard(t, []byte(text), 1<<20)
	skip := []byte{0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"plain":               {[]byte(text), text},
		"gzip":                {gzipped(t, []byte(text)), text},
		"zstd":                {packed, text},
		"two frames":          {append(bytes.Clone(packed), packed...), text + text},
		"a frame to skip":     {append(skip, packed...), text},
		"an empty file":       {nil, ""},
		"a text of one byte":  {[]byte("1"), "1"},
		"a file of two bytes": {[]byte("\x28\xb5"), "\x28\xb5"},
	} {
		if got, err := unpacked(t, c.file); got != c.want || err != nil {
			t.Errorf("%s: %d bytes, %v, want %d", name, len(got), err, len(c.want))
		}
	}
}

// A packed file that is cut off, damaged, too large or made to be unpacked in too much memory is
// refused as such.
func TestRefusals(t *testing.T) {
	text := strings.Repeat("1,2,a\n3,4,b\n", 5000)
	whole := zstandard(t, []byte(text), 1<<20)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-2] ^= 1
	far := bytes.Clone(whole)
	far[5] = 0xff // of the window
	for name, c := range map[string]struct {
		file []byte
		says string
	}{
		"cut off":              {whole[:len(whole)-20], "the packed file is cut off"},
		"cut off in its head":  {whole[:5], "the packed file is cut off"},
		"damaged":              {flipped, "the packed file is damaged"},
		"garbage behind":       {append(bytes.Clone(whole), "garbage"...), "the packed file is damaged"},
		"a large window":       {far, "unpacking it takes more than 128 MiB of memory: unpack it first"},
		"zeros by zstd":        {zstandard(t, make([]byte, UnpackFloor+1), 1<<20), "it unpacks to more than 64 times its size"},
		"zeros by gzip":        {gzipped(t, make([]byte, UnpackFloor+1)), "it unpacks to more than 64 times its size"},
		"zeros in many frames": {bytes.Repeat(zstandard(t, make([]byte, 1<<20), 1<<20), 17), "it unpacks to more than 64 times its size"},
	} {
		got, err := unpacked(t, c.file)
		if !errors.Is(err, fault.ErrFormat) || !strings.Contains(err.Error(), c.says) || len(got) > UnpackFloor {
			t.Errorf("%s: %d bytes, %v, want %q", name, len(got), err, c.says)
		}
	}
}

// A context that is done ends the reading of a packed file with its own cause.
func TestOpenStops(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	var text strings.Builder // that packs badly
	for i := range 200000 {
		text.WriteString(string(rune('a' + i*i%7919%26)))
	}
	packed := zstandard(t, []byte(text.String()), 1<<20)
	s, err := NewStream(ctx, "x", io.MultiReader(bytes.NewReader(packed[:70]), funcReader(func() { cancel(why) }), bytes.NewReader(packed[70:])), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, s); !errors.Is(err, why) || errors.Is(err, fault.ErrFormat) {
		t.Error(err)
	}
}

// funcReader calls a function once it is read, and is empty.
type funcReader func()

func (f funcReader) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// FuzzZstd: whatever a file holds, unpacking it ends within bounds, with an error or without.
func FuzzZstd(f *testing.F) {
	f.Add(zstandard(f, []byte("a,b\n1,2\n"), 1<<20))
	f.Add(zstandard(f, make([]byte, 5000), 1<<10))
	f.Add([]byte{0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'})
	f.Fuzz(func(t *testing.T, file []byte) {
		s, err := NewStream(t.Context(), "x", bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		if n, _ := io.Copy(io.Discard, s); n > max(UnpackLimit(int64(len(file))), int64(len(file))) {
			t.Errorf("%d bytes are unpacked from %d", n, len(file))
		}
	})
}
