package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

// TestFirstPages compares with what bbolt writes.
func TestFirstPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db, err := bbolt.Open(path, 0o644, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, OpenOptions{ReadOnly: true}); !errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) {
		t.Errorf("reading what was never saved in: %v", err)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := firstPages(os.Getpagesize())
	if !bytes.Equal(got, want) {
		t.Errorf("the first pages are\n%x, bbolt writes\n%x", got[:80], want[:80])
	}
	torn := bytes.Clone(want)
	copy(torn[512:4096], make([]byte, 4096))
	copy(torn[8192:], make([]byte, len(torn)))
	if !tornStart(torn) || !tornStart(torn[:8192]) || !tornStart(nil) {
		t.Error("part of the first pages is not known as such")
	}
	torn[20]++
	if tornStart(torn) || tornStart([]byte("somebody's notes")) {
		t.Error("something else is taken for part of the first pages")
	}
}
