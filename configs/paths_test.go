package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Paths of a file begin at its folder, those of overrides at the working folder.
func TestPaths(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sub/a.csv", "sub/held.csv", "other.csv", "sub/own.txt", "sub/t.json", "here-1.csv"} {
		write(name, "1\n")
	}
	csv := func(path string) string {
		return "data: {source: csv, path: " + path + ", split: {val: held.csv}}\nmodel: {preset: mlp, hidden: [2]}\ndevices: {host_memory: 8MiB, spill_dir: spills}\n"
	}
	words := func(tokenizer string) string {
		return "data: {source: text, path: [own.txt, ../other.csv, 'builtin:shakespeare'], tokenizer: " + tokenizer + "}\nmodel: {preset: gpt, layers: 1, heads: 1, width: 8}\n"
	}
	all := func(c *Config) string {
		list := append([]string{c.Data.Path, c.Data.Tokenizer, c.Devices.SpillDir}, c.Data.MorePaths...)
		if c.Data.Division != nil {
			list = append(list, c.Data.Division.ValPath)
		}
		return filepath.ToSlash(strings.Join(list, " "))
	}
	for _, x := range []struct {
		text string
		o    Overlay
		want string // the paths, or the error
	}{
		{csv("a.csv"), Overlay{}, "sub/a.csv  sub/spills sub/held.csv"},
		{csv("nowhere.csv"), Overlay{}, "sub/nowhere.csv  sub/spills sub/held.csv"},
		{csv("a.csv"), Overlay{Set: []string{"data.path=other.csv", "data.split={val: v.csv}"}, Flags: map[string]string{"spill-dir": "s"}}, "other.csv  s v.csv"},
		{csv("a.csv"), Overlay{Env: []string{"BERTH_DATA_PATH=other.csv"}}, "other.csv  sub/spills sub/held.csv"},
		{csv("other.csv"), Overlay{}, "data.path: there is no sub/other.csv, and paths in a config start from its folder; other.csv is in the working folder: give its path from sub, or move it there"},
		{csv("'here-*.csv'"), Overlay{}, "there is no sub/here-*.csv"},
		{words("gpt2"), Overlay{}, "sub/own.txt gpt2  other.csv builtin:shakespeare"},
		{words("t.json"), Overlay{}, "sub/own.txt sub/t.json  other.csv builtin:shakespeare"},
		{words("other.csv"), Overlay{}, "data.tokenizer: there is no sub/other.csv"},
	} {
		write("sub/c.yaml", x.text)
		c, err := Load("sub/c.yaml", x.o)
		if err != nil {
			if !strings.Contains(filepath.ToSlash(err.Error()), x.want) {
				t.Errorf("%s%+v: %v", x.text, x.o, err)
			}
			continue
		}
		if got := all(c); got != x.want {
			t.Errorf("%s%+v: got %q, want %q", x.text, x.o, got, x.want)
		}
	}
}
