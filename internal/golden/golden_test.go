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

func TestCheckNamesTheFirstLineThatDiffers(t *testing.T) {
	if golden.Updating() {
		t.Skip("nothing here is a golden file")
	}
	path := filepath.Join(t.TempDir(), "file.txt")
	updating(t, func() { check(t, path, "a\nb\nc\n") })
	for got, says := range map[string]string{
		"a\nx\nc\n":    "from line 2 on: if the new text is right, write it with go test -update\ngot there  x\nwant there b\n",
		"a\nb\nc\nd\n": "got there  d\nwant there \n",
		"":             "from line 1 on",
	} {
		if r := check(t, path, got); len(r.errors) != 1 || !strings.Contains(r.errors[0], says) {
			t.Errorf("%q: %q, want %q", got, r.errors, says)
		}
	}
}
