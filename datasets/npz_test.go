package datasets

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
)

// npzOf opens the array "input" of an archive.
func npzOf(b []byte) (*array, error) {
	return parseNpz(context.Background(), bytes.NewReader(b), int64(len(b)), "input")
}

func FuzzNpz(f *testing.F) {
	for _, name := range []string{"pair", "packed"} {
		b, err := os.ReadFile("testdata/" + name + ".npz")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := npzOf(b)
		if err == nil {
			_, _, err = a.column(t.Context(), "input", true)
		}
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
	})
}
