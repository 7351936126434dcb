package datasets

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/shape"
)

// inFolder writes files into a folder, by path.
func inFolder(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range contents {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// textOf is the text that a dataset's training windows hold.
func textOf(t *testing.T, ds *Dataset) string {
	t.Helper()
	return tokenizer.Text(ds.Info.Tokenizer, shape.View[int32](readAll(t, ds.Train, 0)[0])...)
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.String()
}

// A text may be several files and folders; each file is a document.
func TestPaths(t *testing.T) {
	dir := inFolder(t, map[string]string{
		"b.txt": "second.", "a/z.txt": "first.", "a/empty": "", ".git/x": "hidden", "c.gz": gzipped("third."), "d/e.txt": "fourth.",
	})
	s := Spec{Source: "text", Path: dir, Split: 1, KeepOrder: true, Text: TextOptions{Context: 1}}
	// The last token of a text is a target alone.
	for tok, want := range map[string]string{
		"char": "first.\nsecond.\nthird.\nfourth.", "bytes": "first.\nsecond.\nthird.\nfourth.",
		"gpt2": "first.<|endoftext|>second.<|endoftext|>third.<|endoftext|>fourth.",
	} {
		s.Text.Tokenizer = tok
		if got := textOf(t, open(t, s)); got != want {
			t.Errorf("%s: %q, want %q", tok, got, want)
		}
	}
	s.Path, s.Text.Tokenizer = filepath.Join(dir, "d"), "char"
	s.Text.More = []string{filepath.Join(dir, "b.txt")}
	ds := open(t, s)
	if got := textOf(t, ds); got != "fourth.\nsecond." || ds.Name != "text "+s.Path+" and 1 more" {
		t.Errorf("%s: %q", ds.Name, got)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err == nil { // not every system lets everyone
		s.Path, s.Text.More = filepath.Join(link, "a"), []string{link}
		if got := textOf(t, open(t, s)); got != "first.\nfirst.\nsecond.\nthird.\nfourth." {
			t.Errorf("through a link: %q", got)
		}
	}
	s.Text.More = []string{filepath.Join(dir, "nothing")}
	if _, err := Open(t.Context(), s); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "nothing") {
		t.Error(err)
	}
	s.Path, s.Text.More = filepath.Join(dir, "a", "empty"), nil
	if _, err := Open(t.Context(), s); !errors.Is(err, ErrTooFew) || Blame(err) != "path" || !strings.Contains(err.Error(), "empty is empty") {
		t.Errorf("an empty file: %v", err)
	}
	s.Text.More, s.Text.Context = []string{filepath.Join(dir, "d")}, 1000
	if _, err := Open(t.Context(), s); !errors.Is(err, ErrTooFew) || Blame(err) != "context" || !strings.Contains(err.Error(), "empty and 1 more has ") {
		t.Errorf("two paths that are too short: %v", err)
	}
}

// The text of JSON lines is under a key; each line is a document.
func TestJSONLines(t *testing.T) {
	dir := inFolder(t, map[string]string{
		"a.jsonl": `{"text":"né\n","id":1}` + "\n\n" + `{"id":{"x":[1]},"text":"wo"}` + "\r\n" + `{"text":""}`,
		"b.jsonl": `{"text":"x"}`, "readme.md": "no",
	})
	s := Spec{Source: "text", Path: dir, Split: 1, KeepOrder: true, Text: TextOptions{Context: 1, Field: "text"}}
	if got := textOf(t, open(t, s)); got != "né\n\nwo\nx" {
		t.Errorf("%q", got)
	}
	for line, says := range map[string]string{
		`{"text":1}`: `"text" is not a string`, `{"txt":"a"}`: `no key "text"`, `["a"]`: "expected a JSON object", `{"text":"a"`: "expected a JSON object", `{"text":null}`: "is not a string",
	} {
		s.Path = write(t, "x.jsonl", "{\"text\":\"a\"}\n\n"+line+"\n")
		if _, err := Open(t.Context(), s); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "x.jsonl:3: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", line, err)
		}
	}
	s.Text.Field = ""
	if _, err := Open(t.Context(), s); !errors.Is(err, ErrSpec) || Blame(err) != "path" { // the field is not there to be blamed
		t.Error(err)
	}
}

// A dataset says which files of its paths are left out or read twice, and that fewer
// tokens were learnt than asked for.
func TestTextNotes(t *testing.T) {
	dir := inFolder(t, map[string]string{"a.jsonl": `{"text":"one two"}`, "b.txt": "left", "c.txt": "out"})
	a := filepath.Join(dir, "a.jsonl")
	for _, c := range []struct {
		paths     []string
		tokenizer string
		says      []string
	}{
		{[]string{a}, "char", nil},
		{[]string{dir}, "char", []string{"2 files are left out, the first is "}},
		{[]string{a, a}, "char", []string{a + " is read more than once"}},
		{[]string{a}, "bpe:300", []string{"data.tokenizer bpe:300: the tokenizer has 257 tokens: no further pair"}},
	} {
		ds := open(t, Spec{Source: "text", Path: c.paths[0], Split: 1, Text: TextOptions{Context: 1, Field: "text", Tokenizer: c.tokenizer, More: c.paths[1:]}})
		if !slices.EqualFunc(ds.Notes, c.says, strings.Contains) {
			t.Errorf("%q with %s: %q", c.paths, c.tokenizer, ds.Notes)
		}
	}
}

// A line of any length is whole; lines split a file at the same places however it
// is read.
func TestLongJSONLine(t *testing.T) {
	long := strings.Repeat("long ", 2*tokenizer.CutBytes/5+1)
	text, err := json.Marshal(map[string]string{"t": long})
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, "x.jsonl", `{"t":"a"}`+"\n"+string(text)+"\n"+`{"t":"b"}`)
	s := Spec{Source: "text", Path: path, Split: 1, KeepOrder: true, Text: TextOptions{Context: 1, Field: "t"}}
	if got := textOf(t, open(t, s)); got != "a\n"+long+"\nb" {
		t.Errorf("%d characters", len(got))
	}
}

// A tokenizer can be learnt from the text. Evaluating and predicting take that of
// training, and so does a run that goes on.
func TestTokenizers(t *testing.T) {
	text := strings.Repeat("the cat sat on the mat and the rat ran\n", 60)
	s := Spec{Source: "text", Path: write(t, "x.txt", text), KeepOrder: true, Text: TextOptions{Context: 7, Tokenizer: "bpe:270"}}
	ds := open(t, s)
	if ds.Info.Tokens != 270 || !strings.HasPrefix(text, textOf(t, ds)) {
		t.Errorf("%d tokens", ds.Info.Tokens)
	}
	if again := open(t, s); again.Info.Fingerprint != ds.Info.Fingerprint {
		t.Error("the same text has another fingerprint")
	}
	var info Info // as it comes back from a checkpoint
	b, err := json.Marshal(ds.Info)
	if err = errors.Join(err, json.Unmarshal(b, &info)); err != nil || info.Tokenizer.Hash() != ds.Info.Tokenizer.Hash() {
		t.Fatal(err)
	}
	var doing []string
	known := s
	known.Text.Tokenizer, known.Text.Known = "nowhere.json", info.Tokenizer
	known.Text.Progress = func(x string, share float64) {
		if share >= 0 && share <= 1 && !slices.Contains(doing, x) {
			doing = append(doing, x)
		}
	}
	if on := open(t, known); on.Info.Fingerprint != ds.Info.Fingerprint || !slices.Equal(doing, []string{"tokenizing"}) {
		t.Errorf("a run that goes on has other data; %q", doing)
	}
	like := s
	like.Like, like.Path = &info, write(t, "y.txt", "a rat sat on that cat, the dog\n")
	like.Text.Tokenizer = "nowhere.json"
	if other := open(t, like); other.Val != nil || other.Info.Tokens != 270 {
		t.Errorf("other data: %d tokens", other.Info.Tokens)
	}
	parts, err := OpenInputs(t.Context(), s, &info, like.Path)
	if err != nil || parts[0].Len() != 2 {
		t.Errorf("inputs: %v", err)
	}
	for name, says := range map[string]string{"bpe:x": "such as bpe:4096", "nowhere.json": ": give char, bytes", s.Path: "line 1, column 2"} {
		s.Text.Tokenizer = name
		if _, err := Open(t.Context(), s); err == nil || Blame(err) != "tokenizer" || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Bytes need no UTF-8; other tokenizers do.
func TestTextBytes(t *testing.T) {
	s := Spec{Source: "text", Path: write(t, "x", "a\xff\x00b"), Split: 1, KeepOrder: true, Text: TextOptions{Context: 3, Tokenizer: "bytes"}}
	if got := textOf(t, open(t, s)); got != "a\xff\x00" {
		t.Errorf("%q", got)
	}
	s.Text.Tokenizer = "gpt2"
	if _, err := Open(t.Context(), s); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "x:1:2: not UTF-8: convert the file to UTF-8, or set data.tokenizer to bytes") {
		t.Error(err)
	}
}

func FuzzJSONLines(f *testing.F) {
	f.Add([]byte("{\"t\":\"a\"}\n{\"t\":\"b\\ud800\"}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := Spec{Source: "text", Path: write(t, "x.jsonl", string(b)), Split: 1, Text: TextOptions{Context: 1, Field: "t", Tokenizer: "bytes"}}
		if ds, err := Open(t.Context(), s); err == nil && ds.Train.Len() > 3*len(b) { // a byte that is not UTF-8 becomes a character of three
			t.Fatalf("%d tokens of %d bytes", ds.Train.Len(), len(b))
		}
	})
}
