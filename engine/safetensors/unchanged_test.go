package safetensors

import (
	"errors"
	"os"
	"testing"
	"time"
)

// Contents of a file that was written to since it was opened are not used, though
// they may look right: they can be those of other weights.
func TestChangedFiles(t *testing.T) {
	plain := plainFile(t)
	later := time.Now().Add(time.Hour) // the system's clock for files is coarse
	changes := map[string]func(path string) error{
		"written again": func(path string) error {
			return errors.Join(os.WriteFile(path, plain, 0o644), os.Chtimes(path, later, later))
		},
		"emptied": func(path string) error { return os.Truncate(path, 0) },
	}
	for name, change := range changes {
		path := written(t, plain)
		f, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		x := f.Tensors()[0]
		dst := make([]byte, x.Bytes())
		if err := f.Read(x.Name, dst); err != nil {
			t.Fatal(err)
		}
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		if err := f.Read(x.Name, dst); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	path := written(t, packers["gz"](t, plain))
	s, err := OpenStream(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	if err := s.Rewind(); !errors.Is(err, ErrChanged) {
		t.Errorf("compressed: %v", err)
	}
}
