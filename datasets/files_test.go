package datasets

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func packed(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
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
	bomb := packed(make([]byte, unpackFloor+1))
	if _, err := unpack("bomb.gz", bomb); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	var z bytes.Buffer
	w := zip.NewWriter(&z)
	m, err := w.Create("input.npy")
	if err == nil {
		_, err = m.Write(make([]byte, unpackFloor+1))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := readNpz(z.Bytes(), "input"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "unpacks to more") {
		t.Error(err)
	}
}
