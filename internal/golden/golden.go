package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
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
		t.Errorf("%s differs: if the new text is right, write it with go test -update\n%s", path, difference(string(want), got))
	}
}

// difference is where two texts differ: @@ and the numbers of lines, - and a line of the first
// text, + and a line of the second, and so on for the first few.
func difference(want, got string) string {
	const most = 10 // lines
	text := string(diff.Diff("want", []byte(want), "got", []byte(got)))
	var b strings.Builder
	differing := 0
	for i, line := range strings.Split(text, "\n") {
		if i < 3 || line == "" || strings.HasPrefix(line, " ") { // the head, or a line that both have
			continue
		}
		if differing < most {
			b.WriteString(line + "\n")
		}
		if line[0] != '@' {
			differing++
		}
	}
	if more := differing - most; more > 0 {
		fmt.Fprintf(&b, "and %d more lines that differ\n", more)
	}
	return b.String()
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
