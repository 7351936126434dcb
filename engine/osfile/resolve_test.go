package osfile

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestResolve(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system cleans paths")
	}
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("a/b", 0o777); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"l": "a/b", "abs": filepath.Join(here, "a/b"), "a/up": "b"} {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"":                   "",
		"l":                  "l",
		"l/x":                "l/x",
		"l/../x":             "a/x",
		"./l/.././x/":        "a/x",
		"a/up/../../x":       "x",
		"abs/../x":           filepath.Join(here, "a/x"),
		here + "/l/../x":     filepath.Join(here, "a/x"),
		"new/../x":           "x",
		"../x":               "../x",
		"../../x":            "../../x",
		"l/../../../x":       "../x",
		"/../x":              "/x",
		"a..b/x":             "a..b/x",
		"l/../up/../../l/..": "a",
	} {
		if got := Resolve(path); got != want {
			t.Errorf("%q: %q, expected %q", path, got, want)
		}
	}
}
