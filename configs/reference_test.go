package configs

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write golden files and docs/config.md anew")

// golden compares text with a file, or writes the file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; run with -update", err)
	}
	if got != string(want) {
		t.Errorf("%s differs; look at it, then run with -update\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}

func TestReferencePage(t *testing.T) {
	golden(t, filepath.Join("..", "docs", "config.md"), Reference())
}

// TestTables holds the tables to what the code that reads them relies on.
func TestTables(t *testing.T) {
	seen := map[*section]bool{}
	var check func(s *section, at string)
	check = func(s *section, at string) {
		if seen[s] {
			return
		}
		seen[s] = true
		if s.shorthand != "" && s.shorthand != s.all()[0].name {
			t.Errorf("%s: the shorthand %q is not the first key", at, s.shorthand)
		}
		for _, choice := range append(s.choices(), "") {
			keys, _ := s.active(choice)
			names := map[string]bool{}
			for _, k := range keys {
				if names[k.name] {
					t.Errorf("%s: variant %q has %q twice", at, choice, k.name)
				}
				names[k.name] = true
			}
		}
		for _, k := range s.all() {
			path := join(at, k.name)
			sub, nested := k.kind.(*section)
			if nested {
				check(sub, path)
			} else if k.doc == "" {
				t.Errorf("%s has no documentation", path)
			}
			if k.required && k.def != "" {
				t.Errorf("%s is required and has a default", path)
			}
		}
	}
	check(rootSection, "")
	check(layerSection, "model.layers[]")
}

// TestVariablesAreUnambiguous: no two keys share an environment variable.
func TestVariablesAreUnambiguous(t *testing.T) {
	owner := map[string]string{}
	for path, l := range rootSection.leaves("", map[string]leaf{}) {
		if other, ok := owner[variable(path)]; ok && other != l.path {
			t.Errorf("%s is the variable of %s and %s", variable(path), other, l.path)
		}
		owner[variable(path)] = l.path
	}
}
