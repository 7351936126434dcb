package datasets

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/columns"
)

// A table of numbers is the same data from CSV, from JSON lines, and from several files.
func TestFormatsAgree(t *testing.T) {
	dir := folder(t, map[string][]byte{
		"x.csv":   []byte("a,b,k\n1,2.5,x\n3,-4e2,y\n5,6,x\n"),
		"x.jsonl": []byte(`{"a": 1, "b": 2.5, "k": "x"}` + "\n" + `{"k": "y", "b": -4e2, "a": 3}` + "\n" + `{"a": 5, "b": 6, "k": "x"}`),
		"p-1.csv": []byte("a,b,k\n1,2.5,x\n"), "p-2.csv": []byte("k,a,b\ny,3,-4e2\nx,5,6\n"),
	})
	spec := Spec{Source: "csv", Path: filepath.Join(dir, "x.csv"), Split: 1}
	want := open(t, spec)
	for path, name := range map[string]string{"x.jsonl": "jsonl", "p-*.csv": "csv"} {
		spec.Path = filepath.Join(dir, path)
		got := open(t, spec)
		if got.Info.Fingerprint != want.Info.Fingerprint || got.Columns != nil || !strings.HasPrefix(got.Name, name+" ") {
			t.Errorf("%s: %s, %+v, want %+v", path, got.Name, got.Info, want.Info)
		}
	}
}

// A column of lists is left out by data.ignore or data.columns, and refused otherwise. Places in one of
// several files name that file.
func TestFormatErrors(t *testing.T) {
	dir := folder(t, map[string][]byte{
		"x.jsonl": []byte(strings.Repeat(`{"a": "blue", "tags": ["x"], "k": "x"}`+"\n"+`{"a": "red", "k": "y"}`+"\n", 4)),
		"p-1.csv": []byte("a,k\n1,x\n2,y\n3,x\n"), "p-2.csv": []byte("k,a\ny,4\nx,5b\n"),
	})
	spec := Spec{Source: "csv", Path: filepath.Join(dir, "x.jsonl"), Split: 1}
	if _, err := Open(t.Context(), spec); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `x.jsonl:1:23: the value of "tags" is a list`) {
		t.Error(err)
	}
	spec.CSV.Ignore = []string{"tags"}
	ignored := open(t, spec)
	spec.CSV.Ignore, spec.Columns.Columns = nil, []columns.Option{{Name: "tags", Kind: columns.Ignore}}
	if got := open(t, spec); fmt.Sprint(got.Info.Features) != fmt.Sprint(ignored.Info.Features) || len(got.Info.Features) != 2 {
		t.Errorf("%v, want %v", got.Info.Features, ignored.Info.Features)
	}
	spec.CSV.Header = HeaderNo
	if _, err := Open(t.Context(), spec); Blame(err) != "header" || !errors.Is(err, ErrSpec) {
		t.Error(err)
	}
	spec = Spec{Source: "csv", Path: filepath.Join(dir, "p-*.csv"), Split: 1, CSV: CSVOptions{Labels: []string{"k"}}}
	if _, err := Open(t.Context(), spec); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `p-2.csv:3:3 (column "a"): "5b" is not a number`) {
		t.Error(err)
	}
}
