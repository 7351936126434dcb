package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The file is cut while it is open: reads are errors, and a write is one too,
// not a fault in bbolt's mapping.
func TestCutWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	save(t, db, 1)
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.Latest(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Errorf("Latest: %v", err)
	}
	m, src := at(2)
	if _, err := db.Save(t.Context(), m, src); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "to 8192 while it was in use") {
		t.Errorf("Save: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := Open(path, small); !errors.Is(err, ErrDamaged) {
		t.Errorf("Open: %v", err)
	}
}
