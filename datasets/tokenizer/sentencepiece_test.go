package tokenizer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Parts of a file like SentencePiece's that are not supported are refused by name.
func TestSentencePieceRefused(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "references", "llama2.json"))
	if err != nil {
		t.Fatal(err)
	}
	good := string(raw)
	for _, c := range []struct{ from, to, says string }{
		{`{"type":"Prepend","prepend":"▁"}`, `{"type":"Lowercase"}`, "normalizer.normalizers[0]: Lowercase is not supported with byte_fallback; only a BPE is read"},
		{`"prepend":"▁"`, `"prepend":"x"`, `normalizer.normalizers[0]: Prepend of "x" is not supported here; a ▁ is, once`},
		{`"content":"▁"}`, `"content":"_"}`, "normalizer.normalizers[1]: Replace of"},
		{`{"type":"Replace","pattern":{"String":" "},"content":"▁"}`, `{"type":"Prepend","prepend":"▁"}`, "normalizer.normalizers[1]: Prepend"},
		{`,{"type":"Replace","pattern":{"String":" "},"content":"▁"}`, ``, "normalizer: makes no ▁ of spaces"},
		{`"pre_tokenizer":null`, `"pre_tokenizer":{"type":"Whitespace"}`, "pre_tokenizer: Whitespace is not supported with byte_fallback"},
		{`"pre_tokenizer":null`, `"pre_tokenizer":{"type":"Metaspace","replacement":"_"}`, `pre_tokenizer: replacement "_" is not supported; ▁ is`},
		{`"pre_tokenizer":null`, `"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"last"}`, `prepend_scheme "last" is not supported; always, first and never are`},
		{`{"type":"Fuse"}`, `{"type":"WordPiece"}`, "decoder.decoders[2]: WordPiece is not supported with byte_fallback"},
		{`"start":1`, `"start":2`, "decoder.decoders[3]:"},
		{`"<0x41>"`, `"<0x4a>"`, "model.byte_fallback: byte 0x41 has no token <0x41>"},
		{`"unk_token":"<unk>"`, `"unk_token":"<none>"`, `model.unk_token: "<none>" is not in the vocabulary`},
		{`"merges":[`, `"merges":[["<0x41>","a"],`, "model.merges[0]"},
		{`"lstrip":false`, `"lstrip":true`, "added_tokens[0]: single_word, lstrip and rstrip are not supported"},
		{`"type":"Sequence","normalizers":[`, `"type":"Sequence","normalizers":[` + strings.Repeat(`{"type":"Replace","pattern":{"String":" "},"content":"▁"},`, 16), "normalizer: 18 parts are more than 16"},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		if text == good {
			t.Fatalf("the file has no %s", c.from)
		}
		if _, err := Parse([]byte(text)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.60s: %v, want %q", c.to, err, c.says)
		}
	}
}

// A text of any bytes comes back, behind the space that the tokenizer puts before it.
func TestSentencePieceDecodes(t *testing.T) {
	b := reference(t, "llama2")
	for _, text := range append(texts(300), "\xff\xfe half \xf0\x9f", "\u0301") {
		ids, err := b.Encode(t.Context(), nil, []byte(text))
		want := text
		if text != "" {
			want = " " + text
		}
		if back := Text(b, ids...); err != nil || back != want {
			t.Errorf("%q came back as %q, %v", text, back, err)
		}
	}
	if got := Text(b, uint32(b.Len()), 3+0xe2); got != Replacement+"\xe2" {
		t.Errorf("%q", got)
	}
}

// What goes on from a piece has no space before it; what follows an added token has, as
// often as the file says.
func TestSentencePieceBegins(t *testing.T) {
	for name, want := range map[string][3]string{
		"llama2":    {" the", "the", " the<s> the"},
		"mistral":   {" the", "the", " the<s>the"},
		"metaspace": {" the", "the", " the<s> the"},
	} {
		b := reference(t, name)
		for i, encode := range []func(context.Context, []uint32, []byte) ([]uint32, error){b.Encode, b.EncodeRest, b.Encode} {
			text := "the"
			if i == 2 {
				text = "the<s>the"
			}
			ids, err := encode(t.Context(), nil, []byte(text))
			if got := Text(b, ids...); err != nil || got != want[i] {
				t.Errorf("%s: %q, want %q, %v", name, got, want[i], err)
			}
		}
		long := strings.Repeat("the cat ", 2*CutBytes/8)
		all, err := b.Encode(t.Context(), nil, []byte(long))
		last, n, err2 := End(t.Context(), b, long, len(all))
		if err != nil || err2 != nil || n != len(all) || !slices.Equal(last, all) {
			t.Errorf("%s: the end of a text has %d tokens, the text %d, %v, %v", name, n, len(all), err, err2)
		}
	}
}

// The token that ends a text is the one of the tokenizer's family.
func TestEndOfTextOfFamilies(t *testing.T) {
	for name, want := range map[string]string{"gpt2": "<|endoftext|>", "qwen2": "<|endoftext|>", "llama3": "<|end_of_text|>", "llama2": "</s>"} {
		b := reference(t, name)
		if id, ok := b.EndOfText(); !ok || Text(b, id) != want {
			t.Errorf("%s: %d is %q, %v", name, id, Text(b, id), ok)
		}
	}
}
