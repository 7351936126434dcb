package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Damage that causes damage is called so once.
func TestDamageIsSaidOnce(t *testing.T) {
	deep := damaged("page 5: %w", fmt.Errorf("element 2: %w", damaged("%w", io.ErrUnexpectedEOF)))
	if got, want := deep.Error(), "checkpoint file is damaged: page 5: element 2: unexpected EOF"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(deep, ErrDamaged) || !errors.Is(deep, io.ErrUnexpectedEOF) {
		t.Errorf("%v has lost a cause", deep)
	}
	for s, want := range map[Skipped]string{
		{7, damaged("page 5")}: "checkpoint 7: damaged: page 5",
		{7, io.EOF}:            "checkpoint 7: EOF",
		{0, fmt.Errorf("meta page 1: %w: unused", damaged("no magic number"))}: "part of the file: damaged: meta page 1: no magic number: unused",
	} {
		if got := s.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	path := filepath.Join(t.TempDir(), "c.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 1<<14)), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path, OpenOptions{})
	if !errors.Is(err, ErrDamaged) || strings.Count(err.Error(), ErrDamaged.Error()) != 1 {
		t.Errorf("opened no checkpoint file: %v", err)
	}
}

// A checkpoint that is missing comes with the command that lists the others.
func TestMissingNamesTheList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	save(t, db, 1)
	_, err := db.Load(9)
	for _, err := range []error{err, db.Delete(9)} {
		if want := "trainer checkpoints ls " + path; !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
