package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// small learns a tokenizer of a few merges.
func small(t testing.TB) *BPE {
	l, err := NewLearner(LearnOptions{Vocab: 300})
	if err != nil {
		t.Fatal(err)
	}
	count(l, strings.Repeat("the cat sat on the mat, and the rat ran at that.\n", 20))
	b, err := l.Learn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func fileOf(t testing.TB, b *BPE) string {
	var out bytes.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// GPT-2's own file is older than the type of its model.
func TestFileWithoutModelType(t *testing.T) {
	b := small(t)
	text := fileOf(t, b)
	old := strings.Replace(text, `"type": "BPE",`, "", 1)
	got, err := Parse([]byte(old))
	if err != nil || got.Hash() != b.Hash() || old == text {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Parse([]byte(strings.Replace(old, `"merges"`, `"scores"`, 1))); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "model.type: is missing") {
		t.Errorf("without merges: %v", err)
	}
}

// What is written reads back, and as a checkpoint keeps it.
func TestFile(t *testing.T) {
	pattern, err := newSplit(`\p{N}{1,3}|\p{L}+|[^\p{N}\p{L}]`, false)
	if err != nil {
		t.Fatal(err)
	}
	split := small(t)
	other, err := newBPE(parts{kind: "bpe", tokens: split.tokens, pairs: split.pairs, added: split.added.list, split: []splitter{gpt2Split{}, pattern}, whole: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []*BPE{small(t), GPT2(), other} {
		path := filepath.Join(t.TempDir(), "tokenizer.json")
		if err := os.WriteFile(path, []byte(fileOf(t, b)), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Load(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		saved, err := json.Marshal(Saved{b})
		var back Saved
		if err = errors.Join(err, json.Unmarshal(saved, &back)); err != nil {
			t.Fatal(err)
		}
		for _, x := range []Tokenizer{got, back} {
			if x.Hash() != b.Hash() || x.Len() != b.Len() || x.Kind() != b.Kind() {
				t.Errorf("%s: it came back as %s of %d tokens", b.Kind(), x.Kind(), x.Len())
			}
			for _, text := range texts(50) {
				a, errA := b.Encode(t.Context(), nil, []byte(text))
				c, errC := x.Encode(t.Context(), nil, []byte(text))
				if errA != nil || errC != nil || !slices.Equal(a, c) {
					t.Errorf("%q: %v, and %v from the file; %v %v", text, a, c, errA, errC)
				}
			}
		}
	}
	for _, x := range []Tokenizer{NewChars("añ"), Bytes{}} {
		saved, err := json.Marshal(Saved{x})
		var back Saved
		if err = errors.Join(err, json.Unmarshal(saved, &back)); err != nil || back.Hash() != x.Hash() {
			t.Errorf("%s: %v", saved, err)
		}
	}
}

// Files are read as Hugging Face writes them: merges as pairs, a pattern split, an
// added token that is not in the vocabulary.
func TestForeignFile(t *testing.T) {
	text, pad := fileOf(t, small(t)), small(t).Len()
	text = strings.Replace(text, `"pre_tokenizer": {
  "type": "ByteLevel",
  "add_prefix_space": false,
  "trim_offsets": true,
  "use_regex": true
 }`, `"pre_tokenizer": {"type":"Sequence","pretokenizers":[
   {"type":"Split","pattern":{"Regex":"(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},
   {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]}`, 1)
	text = strings.Replace(text, `"t h"`, `["t","h"]`, 1)
	text = strings.Replace(text, `"added_tokens": [`, fmt.Sprintf(`"added_tokens": [{"id":%d,"content":"<pad>","special":true},`, pad), 1)
	b, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := b.Encode(t.Context(), nil, []byte("THE'S the<pad>1234!\n\n x"))
	if err != nil || b.Len() != pad+1 || !slices.Contains(ids, uint32(pad)) || Text(b, ids...) != "THE'S the<pad>1234!\n\n x" {
		t.Errorf("%d tokens, ids %v, %v", b.Len(), ids, err)
	}
	if got := wordsOf(t, b.split[0], "it'S 12345!\n"); !slices.Equal(got, []string{"it", "'S", " ", "123", "45", "!\n"}) {
		t.Errorf("words %q", got)
	}
}

// Other kinds of files are refused by name.
func TestRefused(t *testing.T) {
	good := fileOf(t, small(t))
	for _, c := range []struct{ from, to, says string }{
		{`"type": "BPE"`, `"type": "WordPiece"`, "model.type: WordPiece is not supported"},
		{`"type": "BPE"`, `"type": "Unigram"`, "model.type: Unigram is not supported"},
		{`"normalizer": null`, `"normalizer": {"type":"NFKC"}`, "normalizer: NFKC is not supported with ByteLevel"},
		{`"add_prefix_space": false`, `"add_prefix_space": true`, "add_prefix_space"},
		{`"use_regex": true`, `"use_regex": false`, "splits no text"},
		{`"pre_tokenizer": {
  "type": "ByteLevel"`, `"pre_tokenizer": {
  "type": "Metaspace"`, "pre_tokenizer: Metaspace is not supported"},
		{`"pre_tokenizer": {
  "type": "ByteLevel"`, `"pre_tokenizer": {
  "type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"`, `pattern "(a" is not understood`},
		{`"pre_tokenizer": {
  "type": "ByteLevel"`, `"pre_tokenizer": {
  "type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated"`, "pre_tokenizer: has no ByteLevel"},
		{`"pre_tokenizer": {
  "type": "ByteLevel"`, `"pre_tokenizer": {
  "type": "Sequence", "pretokenizers": [{"type":"Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated"}]`, "pre_tokenizer: has no ByteLevel"},
		{`"pre_tokenizer": {
  "type": "ByteLevel"`, `"pre_tokenizer": {
  "type": "Sequence", "pretokenizers": [{"type":"ByteLevel"}, {"type":"Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated"}]`, "pre_tokenizer.pretokenizers[1]: comes after ByteLevel"},
		{`"byte_fallback": false`, `"byte_fallback": true`, "pre_tokenizer: ByteLevel is not supported with byte_fallback"},
		{`"end_of_word_suffix": ""`, `"end_of_word_suffix": "</w>"`, "model.end_of_word_suffix"},
		{`"dropout": null`, `"dropout": 0.1`, "model.dropout"},
		{`"lstrip": false`, `"lstrip": true`, "added_tokens[0]"},
		{`"!": 33`, `"!": 34`, "same id 34"},
		{`"!": 33`, `"!": 9999`, "id 33 has no token"},
		{`"!": 33`, `"€": 33`, `token "€" is not byte-level`},
		{`"!": 33`, `"!": -1`, "model.vocab"},
		{`"t h"`, `"t hh"`, "is not two tokens"},
		{`"merges": [`, `"merges": 3, "more": [`, "model.merges: are no list"},
		{`"t h"`, `"! !"`, "which is not in the vocabulary"},
		{`"version"`, `version`, "line 2, column 2"},
		{good, `[]`, "tokenizer.json"},
		{good, `{}`, "model: is missing"},
		{good, ``, "unexpected end"},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		if text == good {
			t.Fatalf("the file has no %s", c.from)
		}
		if _, err := Parse([]byte(text)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.60s: %v, want %q", c.to, err, c.says)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(fileOf(f, small(f))))
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","a"]]}}`))
	for _, name := range referenceNames {
		f.Add([]byte(fileOf(f, reference(f, name))))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := Parse(b)
		if err != nil {
			return
		}
		const text = "the  cat 123 <|endoftext|>\n <s>▁cafe\u0301\xff"
		ids, err := x.Encode(t.Context(), nil, []byte(text))
		for _, id := range ids {
			if int(id) >= x.Len() {
				t.Fatalf("id %d of %d tokens", id, x.Len())
			}
		}
		x.Decode(nil, ids)
		if n := x.Cut([]byte(strings.Repeat(text, 1+CutBytes/len(text))), false); n <= 0 {
			t.Fatalf("cut at %d", n)
		}
		again, err2 := Parse([]byte(fileOf(t, x)))
		if err2 != nil || again.Hash() != x.Hash() {
			t.Fatalf("written, it reads back as another: %v %v", err, err2)
		}
	})
}

// A tokenizer is refused that could be saved and not be read back.
func TestSavedFormFits(t *testing.T) {
	b := small(t)
	var text bytes.Buffer
	if err := b.Write(&text); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.fits(mostFile), b.fits(text.Len())); err != nil {
		t.Error(err)
	}
	if err := b.fits(text.Len() - 1); !errors.Is(err, ErrFormat) {
		t.Errorf("a byte too many: %v", err)
	}
}
