package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
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
		n, g, w := firstDifference(got, string(want))
		t.Errorf("%s differs from line %d on: if the new text is right, write it with go test -update\ngot there  %s\nwant there %s\ngot:\n%s\nwant:\n%s",
			path, n, g, w, got, want)
	}
}

// firstDifference is the number, from 1, of the first line that differs, and the
// line in both texts; the shorter text has an empty one after its end.
func firstDifference(a, b string) (n int, x, y string) {
	for n = 1; a != b && x == y; n++ {
		x, a, _ = strings.Cut(a, "\n")
		y, b, _ = strings.Cut(b, "\n")
	}
	return n - 1, x, y
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
