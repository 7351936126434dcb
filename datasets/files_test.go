package datasets

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/files"
)

func packed(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

// streamOf is the stream of a file that is not packed.
func streamOf(b []byte) *files.Stream {
	return &files.Stream{Reader: bytes.NewReader(b), Left: int64(len(b))}
}

func folder(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A small gzip file that unpacks to much is refused before all of it is in memory.
func TestUnpackLimit(t *testing.T) {
	bomb := packed(make([]byte, files.UnpackFloor+1))
	in, err := files.NewStream(t.Context(), "bomb.gz", bytes.NewReader(bomb), int64(len(bomb)))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, in); !errors.Is(err, ErrFormat) || n > files.UnpackFloor {
		t.Errorf("%d bytes, %v", n, err)
	}
	var z bytes.Buffer
	w := zip.NewWriter(&z)
	m, err := w.Create("input.npy")
	if err == nil {
		_, err = m.Write(npy(fmt.Sprintf("{'descr': '|u1', 'fortran_order': False, 'shape': (%d,)}", files.UnpackFloor), files.UnpackFloor))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := npzOf(z.Bytes()); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "unpacks to more") {
		t.Error(err)
	}
}

// A packed file that is cut off or damaged is refused as such.
func TestCutOff(t *testing.T) {
	csv := packed([]byte(strings.Repeat("1,2,a\n3,4,b\n", 5000)))
	flipped := bytes.Clone(csv)
	flipped[len(csv)-8] ^= 1
	npz, err := os.ReadFile("testdata/packed.npz")
	if err != nil {
		t.Fatal(err)
	}
	const cut, damaged = "the packed file is cut off: copy or download it again", "the packed file is damaged"
	const behind = "the packed file is damaged: other bytes follow the end of the compressed data: copy"
	text := TextOptions{Context: 4}
	for _, c := range []struct {
		source, name string
		data         []byte
		says         string
	}{
		{"csv", "x.csv.gz", csv[:len(csv)-12], cut},
		{"csv", "x.csv.gz", csv[:6], cut},
		{"csv", "x.csv.gz", flipped, damaged},
		{"text", "x.txt.gz", csv[:len(csv)-12], cut},
		{"csv", "x.csv.gz", append(bytes.Clone(csv), "garbage"...), behind},
		{"text", "x.txt.gz", append(bytes.Clone(csv), "garbage, and more of it"...), behind},
		{"tensors", "x.npz", npz[:len(npz)-30], "the archive is cut off or damaged"},
		{"tensors", "x.npz", npz[:30], "the archive is cut off or damaged"},
	} {
		_, err := Open(t.Context(), Spec{Source: c.source, Path: write(t, c.name, string(c.data)), Text: text})
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s of %d bytes: %v", c.name, len(c.data), err)
		}
	}
}
