package datasets

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPathErrors wants every message about a path to say what to give instead.
func TestPathErrors(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	text := TextOptions{Context: 8}
	for _, c := range []struct {
		spec Spec
		want error
		says []string
	}{
		{Spec{Source: "text", Path: "builtin:tolstoy", Text: text}, ErrSpec, []string{BuiltinShakespeare, BuiltinMNIST, "builtin:tolstoy"}},
		{Spec{Source: "mnist", Path: BuiltinShakespeare}, ErrSpec, []string{BuiltinShakespeare, BuiltinMNIST}},
		{Spec{Source: "csv", Path: "builtin:digits"}, ErrSpec, []string{"digits needs no path"}},
		{Spec{Source: "csv"}, ErrSpec, []string{"needs a path", wd}},
		{Spec{Source: "csv", Path: "nowhere.csv"}, fs.ErrNotExist, []string{"its full path is " + filepath.Join(wd, "nowhere.csv")}},
		{Spec{Source: "text", Path: "nowhere.txt", Text: text}, fs.ErrNotExist, []string{"its full path is " + filepath.Join(wd, "nowhere.txt"), BuiltinShakespeare}},
		{Spec{Source: "tensors", Path: "testdata", Tensors: TensorOptions{Input: "none"}}, fs.ErrNotExist, []string{": name another array with data.input or data.target, or set data.path to a folder that has it"}},
		{Spec{Source: "tensors", Path: "/nowhere.npz"}, fs.ErrNotExist, []string{"/nowhere.npz", "existing"}},
	} {
		_, err := Open(t.Context(), c.spec)
		if !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.spec, err, c.want)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%+v: %v does not say %q", c.spec, err, s)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	cases := []Spec{
		{}, {Source: "digit"}, {Source: "csv"}, {Source: "digits", Split: 1.5}, {Source: "digits", Split: -1},
		{Source: "digits", Path: "x"}, {Source: "digits", Images: ImageOptions{Std: -1}},
		{Source: "text", Path: BuiltinShakespeare},
		{Source: "csv", Path: "x", CSV: CSVOptions{Header: "maybe"}}, {Source: "csv", Path: "x", CSV: CSVOptions{Task: "guess"}},
		{Source: "csv", Path: "x", CSV: CSVOptions{Labels: []string{"a", "b"}}},
	}
	for _, s := range cases {
		if _, err := Open(context.Background(), s); !errors.Is(err, ErrSpec) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
