package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// Updating reports whether the test was started with -update, for files that
// are not text.
func Updating() bool { return *update }

// Check compares got with the file at path, which is relative to the folder of
// the test's package. With -update it writes the file first.
func Check(t testing.TB, path, got string) {
	t.Helper()
	if Updating() {
		write(t, path, got)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: write it with go test -update", err)
	}
	if got != string(want) {
		t.Errorf("%s differs: if the new text is right, write it with go test -update\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
