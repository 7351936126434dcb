package berth_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// What was found in a table is kept in a form that reads back, whatever the columns are
// called, and finds the same again.
func TestFoundColumnsAreKept(t *testing.T) {
	names := []string{"", "a.b", "a: b", "<<", "true", "~", "7", "#x", "two\nlines", "\x01", "é", "- x", "{a}", "'q'", "&a", "!!int"}
	var b strings.Builder
	for _, name := range names {
		b.WriteString(`"` + name + `",`)
	}
	b.WriteString("label\n")
	for i := range 40 {
		b.WriteString(strings.Repeat([]string{"red,", "blue,", "?,"}[i%3], len(names)) + []string{"x", "y"}[i%2] + "\n")
	}
	file := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	cfg, err := configs.Parse("test.yaml", []byte("data: {source: csv, path: '"+file+"'}\nmodel: {preset: mlp, hidden: [2]}\n"), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	fingerprint := func(c *configs.Config) (*configs.Config, string) {
		t.Helper()
		run, err := berth.Open(t.Context(), c, berth.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		return run.Config, run.Data.Info.Fingerprint
	}
	kept, first := fingerprint(cfg)
	if cfg.Data.Columns != nil || len(kept.Data.Columns) != len(names) {
		t.Errorf("%d columns are kept; the caller's config has %v", len(kept.Data.Columns), cfg.Data.Columns)
	}
	text, err := kept.Kept()
	if err != nil {
		t.Fatal(err)
	}
	back, err := configs.Parse("kept.yaml", text, configs.Overlay{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !slices.Equal(back.Data.Columns, kept.Data.Columns) {
		t.Errorf("%+v\n%+v", back.Data.Columns, kept.Data.Columns)
	}
	if _, again := fingerprint(back); again != first {
		t.Errorf("fingerprint %s, want %s", again, first)
	}
}
