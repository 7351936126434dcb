package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoFile: the error says where the file was looked for, and which one was probably meant.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.MkdirAll("data", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"churn.csv", "homes.csv"} {
		if err := os.WriteFile(filepath.Join("data", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.Getwd() // without links
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"data/chrun.csv": `there is no file "data/chrun.csv": its full path is ` + filepath.Join(dir, "data", "chrun.csv") + "; name another; did you mean data/churn.csv?",
		"data/new.txt":   "; name another",
		"no/churn.csv":   "; name another",
	} {
		if got := NoFile(path, "name another").Error(); !strings.HasSuffix(got, want) || ExitCode(NoFile(path, "")) != ExitUsage {
			t.Errorf("%s: %q", path, got)
		}
	}
}
