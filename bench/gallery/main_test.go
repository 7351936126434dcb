package main

import (
	"bytes"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is written is the same each time, and CIFAR's files have the pixels of the others.
func TestWrite(t *testing.T) {
	const each, sample = 40, 1 + 3*side*side
	one, two := t.TempDir(), t.TempDir()
	for _, folder := range []string{one, two} {
		if err := write(folder, each); err != nil {
			t.Fatal(err)
		}
	}
	files := 0
	err := filepath.WalkDir(one, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		rest, err := filepath.Rel(one, path)
		if err != nil {
			return err
		}
		if !bytes.Equal(read(t, path), read(t, filepath.Join(two, rest))) {
			t.Errorf("%s differs", rest)
		}
		return nil
	})
	if want := len(shapes)*each + 6; err != nil || files != want {
		t.Errorf("%d files (%v), want %d", files, err, want)
	}
	train, test := read(t, filepath.Join(one, "cifar", "data_batch_1.bin")), read(t, filepath.Join(one, "cifar", "test_batch.bin"))
	if n := len(shapes) * each * sample; len(train) != n/5*4 || len(test) != n/5 {
		t.Errorf("%d and %d bytes, want four fifths and a fifth of %d", len(train), len(test), n)
	}
	m, err := png.Decode(bytes.NewReader(read(t, filepath.Join(one, "shapes", shapes[1].name, "001.png"))))
	if err != nil {
		t.Fatal(err)
	}
	at := train[each/5*4*sample+sample:] // the second one of the second class
	for i := range side * side {
		r, g, b, _ := m.At(i%side, i/side).RGBA()
		if at[0] != 1 || at[1+i] != byte(r>>8) || at[1+side*side+i] != byte(g>>8) || at[1+2*side*side+i] != byte(b>>8) {
			t.Fatalf("class %d, pixel %d: %v, want %v", at[0], i, at[1+i], byte(r>>8))
		}
	}
	if rows := strings.Count(string(read(t, filepath.Join(one, "flats.csv"))), "\n"); rows != 2001 {
		t.Errorf("%d rows of flats", rows)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
