package datasets

import (
	"errors"
	"os"
	"testing"
)

func FuzzNpz(f *testing.F) {
	for _, name := range []string{"pair", "packed"} {
		b, err := os.ReadFile("testdata/" + name + ".npz")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := readNpz(b, "input"); err != nil && !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
	})
}
