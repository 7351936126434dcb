package golden_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/golden"
)

// recorder notes what a test would have reported.
type recorder struct {
	testing.TB
	errors, fatal []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = append(r.fatal, format)
	runtime.Goexit()
}

// check runs Check as a test of its own would.
func check(t *testing.T, path, got string) *recorder {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		golden.Check(r, path, got)
	}()
	<-done
	return r
}

// updating runs f with -update on.
func updating(t *testing.T, f func()) {
	t.Helper()
	before := flag.Lookup("update").Value.String()
	set := func(value string) {
		if err := flag.Set("update", value); err != nil {
			t.Fatal(err)
		}
	}
	set("true")
	defer set(before)
	f()
}

func TestCheck(t *testing.T) {
	if golden.Updating() {
		t.Skip("nothing here is a golden file")
	}
	path := filepath.Join(t.TempDir(), "folder", "file.txt")
	if r := check(t, path, "a"); len(r.fatal) != 1 || !strings.Contains(r.fatal[0], "-update") {
		t.Errorf("without the file: %+v, want a fatal error that names -update", r)
	}
	updating(t, func() {
		if r := check(t, path, "a"); len(r.fatal)+len(r.errors) > 0 {
			t.Errorf("with -update: %+v, want the file written", r)
		}
	})
	if r := check(t, path, "a"); len(r.fatal)+len(r.errors) > 0 {
		t.Errorf("with an equal file: %+v", r)
	}
	if r := check(t, path, "b"); len(r.errors) != 1 {
		t.Errorf("with another text: %+v, want an error", r)
	}
}

// A failure shows the lines that differ, and no more than a few of them, however long the
// texts are.
func TestCheckShowsWhatDiffers(t *testing.T) {
	if golden.Updating() {
		t.Skip("nothing here is a golden file")
	}
	path := filepath.Join(t.TempDir(), "file.txt")
	var long []string
	for i := range 1000 {
		long = append(long, fmt.Sprintf("line %d", i+1))
	}
	old := strings.Join(long, "\n") + "\n"
	updating(t, func() { check(t, path, old) })
	for got, want := range map[string]string{
		strings.Replace(old, "line 500\n", "another\n", 1): "@@ -497,7 +497,7 @@\n-line 500\n+another\n",
		old + "more\n":                        "@@ -998,3 +998,4 @@\n+more\n",
		strings.ReplaceAll(old, "7\n", "x\n"): "-line 47\n+line 4x\nand 190 more lines that differ\n",
		"":                                    "-line 10\nand 990 more lines that differ\n",
	} {
		r := check(t, path, got)
		if len(r.errors) != 1 || !strings.HasSuffix(r.errors[0], want) || !strings.Contains(r.errors[0], "write it with go test -update\n@@ ") {
			t.Errorf("%q, want the end %q", r.errors, want)
		}
		if n := strings.Count(strings.Join(r.errors, ""), "\n"); n > 20 {
			t.Errorf("%d lines: %s", n, r.errors)
		}
	}
}
