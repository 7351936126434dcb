package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// referenceNames are the tokenizers of testdata/references.
var referenceNames = []string{"gpt2", "llama3", "qwen2", "llama2", "mistral", "metaspace"}

// reference is a tokenizer of testdata/references.
func reference(t testing.TB, name string) *BPE {
	t.Helper()
	b, err := Load(filepath.Join("testdata", "references", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// readJSON reads a file of testdata/references.
func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "references", name))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The ids of texts in many languages are those that Hugging Face's own implementation gives
// (testdata/references/make.js), also from a file that was written here. They lead back to
// the text.
func TestReferences(t *testing.T) {
	var texts []string
	var ids map[string][][]uint32
	readJSON(t, "texts.json", &texts)
	readJSON(t, "ids.json", &ids)
	if len(ids) != len(referenceNames) {
		t.Fatalf("ids of %d tokenizers, want %d", len(ids), len(referenceNames))
	}
	for _, name := range referenceNames {
		b := reference(t, name)
		again, err := Parse([]byte(fileOf(t, b)))
		if err != nil || again.Hash() != b.Hash() {
			t.Fatalf("%s, written and read again: %v", name, err)
		}
		for i, text := range texts {
			for _, x := range []*BPE{b, again} {
				got, err := x.Encode(t.Context(), nil, []byte(text))
				if err != nil || !slices.Equal(got, ids[name][i]) {
					t.Errorf("%s %q:\n%v, want\n%v, %v", name, text, got, ids[name][i], err)
				}
				if back := Text(x, got...); name == "gpt2" && back != text {
					t.Errorf("%s %q came back as %q", name, text, back)
				}
			}
		}
	}
}

// A text that is cut has the ids of the whole, wherever it is cut.
func TestReferencesInPieces(t *testing.T) {
	var texts []string
	readJSON(t, "texts.json", &texts)
	text := []byte(strings.Repeat(strings.Join(texts[:len(texts)-1], " "), 1+4*CutBytes/4000))
	for _, name := range referenceNames {
		b := reference(t, name)
		c := newCoder(b)
		if err := c.piece(t.Context(), text, begins); err != nil {
			t.Fatal(err)
		}
		want, pieces := c.out, 0
		var got []uint32
		for rest := text; len(rest) > 0; pieces++ {
			encode := b.Encode
			if pieces > 0 {
				encode = b.EncodeRest
			}
			n := b.Cut(rest[:min(len(rest), CutBytes)], len(rest) <= CutBytes)
			var err error
			if got, err = encode(t.Context(), got, rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		whole, err := b.Encode(t.Context(), nil, text)
		if err != nil || !slices.Equal(whole, want) || !slices.Equal(got, want) || pieces < 3 {
			t.Errorf("%s: %d pieces, %d and %d ids, want %d, %v", name, pieces, len(got), len(whole), len(want), err)
		}
	}
}
