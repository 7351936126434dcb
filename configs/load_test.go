package configs

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestLoadFindsFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "my run.yaml")
	if err := os.WriteFile(file, []byte("data: {source: digits}\nmodel: {preset: mlp}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, Overlay{})
	if err != nil || c.Name != "my-run" || c.Pos.File != file {
		t.Fatalf("got %+v, %v", c, err)
	}
	if _, err := Load(dir, Overlay{}); err == nil || !strings.Contains(err.Error(), "folder") {
		t.Errorf("a folder: %v", err)
	}
	other := filepath.Join(dir, "my run.yml")
	for path, want := range map[string]string{
		other:                           "; did you mean " + file + "?",
		"digit":                         `did you mean "digits"?`,
		filepath.Join(dir, "none.yaml"): "there is no file",
	} {
		if _, err := Load(path, Overlay{}); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	for key, want := range map[string]string{"sweep": "the file of a sweep", "jobs": "the file of a pipeline"} {
		if _, err := Parse("tune.yaml", []byte(key+": {}\n"), Overlay{}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "trainer submit tune.yaml") {
			t.Errorf("%s: %v", key, err)
		}
	}
	if _, err := Source("mnist-mpl"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), `"mnist-mlp"`) {
		t.Errorf("Source: %v", err)
	}
}

func TestShippedConfigsLoad(t *testing.T) {
	want := []string{"digits", "digits-cnn", "mnist-cnn", "mnist-mlp", "shakespeare", "shakespeare-bpe", "shakespeare-lines"}
	if got := Names(); !reflect.DeepEqual(got, want) {
		t.Fatalf("Names() = %v, want %v", got, want)
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			c, err := Load(name, Overlay{})
			if err != nil {
				t.Fatal(err)
			}
			if c.Name != name || c.Data.Pos.Line == 0 || c.Model.Pos.File != "shipped "+name+".yaml" {
				t.Errorf("name %q, data at %v, model at %v", c.Name, c.Data.Pos, c.Model.Pos)
			}
			roundTrip(t, c)
		})
	}
}

// A config that is within the limits as it is given, and beyond them as a run
// keeps it, could not be resumed.
func TestCheckOfAConfigThatGrows(t *testing.T) {
	text := "data: digits\nmodel: {preset: mlp, hidden: [" + strings.Repeat("1,", maxNodes-20) + "1]}\n"
	c, err := Parse("long.yaml", []byte(text), Overlay{}) // the other sections' keys come by default
	if err != nil {
		t.Fatal(err)
	}
	const want = "long.yaml: written with all its keys, as a run keeps it: more than 100,000 values, the limit for a config"
	if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v", err)
	}
}
