package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
)

// writeVocab writes a tokenizer as vocab.json and merges.txt into a folder.
func writeVocab(t testing.TB, b *BPE) string {
	var f struct {
		Model struct {
			Vocab  json.RawMessage `json:"vocab"`
			Merges []string        `json:"merges"`
		} `json:"model"`
	}
	if err := json.Unmarshal([]byte(fileOf(t, b)), &f); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, dir, vocabFile, string(f.Model.Vocab))
	put(t, dir, mergesFile, "#version: 0.2\n"+strings.Join(f.Model.Merges, "\n")+"\n")
	return dir
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A folder without tokenizer.json is read from GPT-2's older files.
func TestLoadVocab(t *testing.T) {
	all := []*BPE{small(t)}
	if testall.Wanted() {
		all = append(all, GPT2())
	}
	for _, b := range all {
		dir := writeVocab(t, b)
		got, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got.Hash() != b.Hash() || got.Kind() != b.Kind() {
			t.Errorf("%s of %d tokens came back as %s of %d", b.Kind(), b.Len(), got.Kind(), got.Len())
		}
	}
	b := small(t)
	dir := writeVocab(t, b)
	put(t, dir, addedFile, fmt.Sprintf(`{"<|user|>": %d, "<|endoftext|>": %d}`, b.Len(), b.Len()-1))
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := got.Encode(t.Context(), nil, []byte("<|user|>a"))
	if err != nil || len(ids) != 2 || ids[0] != uint32(b.Len()) {
		t.Errorf("ids %v, %v", ids, err)
	}
}

// Damage is refused by its file and line.
func TestLoadVocabRefuses(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{vocabFile, `{"a": 0`, "vocab.json: the tokenizer cannot be read: line 1, column 7"},
		{vocabFile, `{"a": -1}`, "model.vocab"},
		{vocabFile, `{"<|endoftext|>": "x"}`, "model.vocab"},
		{vocabFile, `{"a": 0, "b": 0}`, "have the same id 0"},
		{vocabFile, `{"a": 4000000000}`, "id 0 has no token"},
		{vocabFile, `{"a": 0}`, "is not two tokens of vocab.json"},
		{mergesFile, "#version: 0.2\nt h e\n", "merges.txt: the tokenizer cannot be read: line 2"},
		{mergesFile, "th\n", "line 1"},
		{addedFile, `[]`, "added_tokens.json"},
		{addedFile, `{"<|x|>": 4000}`, "has no token; "},
	} {
		dir := writeVocab(t, small(t))
		put(t, dir, c.file, c.text)
		_, err := Load(dir)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.file, c.text, err, c.want)
		}
	}
	dir := writeVocab(t, small(t))
	if err := os.Remove(filepath.Join(dir, mergesFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), mergesFile) {
		t.Errorf("without merges: %v", err)
	}
	if _, err := Load(t.TempDir()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("an empty folder: %v", err)
	}
}

// The bytes as a byte pair encoding have the same ids.
func TestBytesAsBPE(t *testing.T) {
	b := Bytes{}.BPE()
	back, err := Parse([]byte(fileOf(t, b)))
	if err != nil {
		t.Fatal(err)
	}
	text := "a\x00b\xffc é <|endoftext|>"
	ids, err := back.Encode(t.Context(), nil, []byte(text))
	if err != nil || len(ids) != len(text) || string(back.Decode(nil, ids)) != text {
		t.Errorf("ids %v, %v", ids, err)
	}
	for i, id := range ids {
		if id != uint32(text[i]) {
			t.Errorf("byte %#02x has the id %d", text[i], id)
		}
	}
}

// FuzzVocab: whatever the bytes, an error or a tokenizer whose ids are below its length
// and give the text back.
func FuzzVocab(f *testing.F) {
	dir := writeVocab(f, small(f))
	var seed [2][]byte
	for i, name := range []string{vocabFile, mergesFile} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		seed[i] = b
	}
	f.Add(seed[0], seed[1], []byte(`{"<|user|>": 300}`))
	f.Add([]byte(`{"a": 4294967295}`), []byte("#version\na a\n"), []byte(`{"": 1}`))
	f.Fuzz(func(t *testing.T, vocab, merges, added []byte) {
		b, err := parseVocab(vocab, merges, added)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		const text = "the cat <|endoftext|> sat\x00\xff é"
		ids, err := b.Encode(t.Context(), nil, []byte(text))
		if err != nil || string(b.Decode(nil, ids)) != text {
			t.Fatalf("%v, %v", ids, err)
		}
		for _, id := range ids {
			if int(id) >= b.Len() {
				t.Fatalf("id %d of %d", id, b.Len())
			}
		}
	})
}

// Of a merge that is there twice, the last rank counts, as in Hugging Face's tokenizers, which insert
// one after the other into a map. The file is written as it was read.
func TestMergesThatAreThereTwice(t *testing.T) {
	vocab := map[string]int{"ab": 256, "bc": 257}
	for b, name := range byteNames {
		vocab[string(name)] = b
	}
	names, err := json.Marshal(vocab)
	if err != nil {
		t.Fatal(err)
	}
	for merges, want := range map[string][]uint32{"a b\nb c\n": {256, 'c'}, "a b\nb c\na b\n": {'a', 257}, "b c\na b\nb c\n": {256, 'c'}} {
		dir := t.TempDir()
		put(t, dir, vocabFile, string(names))
		put(t, dir, mergesFile, merges)
		tok, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		again := t.TempDir()
		put(t, again, "tokenizer.json", fileOf(t, tok))
		same, err := Load(again)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []Tokenizer{tok, same} {
			if got, err := x.EncodeRest(t.Context(), nil, []byte("abc")); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q: %v, want %v; %v", merges, got, want, err)
			}
		}
	}
}
