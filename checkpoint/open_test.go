package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"text":  bytes.Repeat([]byte("not a checkpoint\n"), 1000),
		"short": []byte("x"),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, ro := range []bool{false, true} {
			if _, err := Open(path, OpenOptions{ReadOnly: ro}); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s, read-only %v: %v", name, ro, err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s was changed: %v", name, err)
		}
	}
	for _, zeros := range []int{0, 16384} { // creation cut short
		path := filepath.Join(dir, fmt.Sprint("zeros", zeros))
		if err := os.WriteFile(path, make([]byte, zeros), 0o644); err != nil {
			t.Fatal(err)
		}
		save(t, open(t, path, small), 1)
	}
}
