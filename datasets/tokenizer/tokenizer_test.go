package tokenizer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestKinds(t *testing.T) {
	chars := NewChars("héllo\n")
	for _, c := range []struct {
		t    Tokenizer
		text string
		ids  []uint32
		kind string
		len  int
	}{
		{chars, "hé\n", []uint32{1, 4, 0}, "char", 5},
		{Bytes{}, "é\xff", []uint32{0xc3, 0xa9, 0xff}, "bytes", 256},
		{GPT2(), "Hello, world", []uint32{15496, 11, 995}, "gpt2", 50257},
		{GPT2(), "a\xffb", []uint32{64, 187, 65}, "gpt2", 50257},
	} {
		ids, err := c.t.Encode(t.Context(), []uint32{7}, []byte(c.text))
		if err != nil || !slices.Equal(ids[1:], c.ids) || ids[0] != 7 || Text(c.t, c.ids...) != c.text {
			t.Errorf("%s %q: ids %v, %v", c.kind, c.text, ids, err)
		}
		if c.t.Kind() != c.kind || c.t.Len() != c.len || Text(c.t, uint32(c.len)) != Replacement {
			t.Errorf("%s of %d tokens", c.t.Kind(), c.t.Len())
		}
	}
	_, err := chars.Encode(t.Context(), nil, []byte("hÖ"))
	var unknown *UnknownError
	if !errors.As(err, &unknown) || unknown.Offset != 1 || unknown.Char != 'Ö' {
		t.Error(err)
	}
	if n := chars.Cut([]byte("h\xc3"), false); n != 1 {
		t.Errorf("cut at %d", n)
	}
}

// The end of a text has the tokens that encoding all of it gives, wherever it is cut.
func TestEnd(t *testing.T) {
	text := strings.Repeat("héllo wörld, hello ", 3*CutBytes/21)
	for _, tok := range []Tokenizer{NewChars(text), Bytes{}, GPT2()} {
		all, err := tok.Encode(t.Context(), nil, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, keep := range []int{1, 1000, len(all) - 1, len(all), len(all) + 1} {
			last, n, err := End(t.Context(), tok, text, keep)
			if err != nil || n != len(all) || !slices.Equal(last, all[max(0, len(all)-keep):]) {
				t.Errorf("%s, the last %d: %d of %d tokens, %v", tok.Kind(), keep, n, len(all), err)
			}
		}
	}
	if last, n, err := End(t.Context(), Bytes{}, "", 5); len(last) != 0 || n != 0 || err != nil {
		t.Error(last, n, err)
	}
	chars := NewChars(text)
	_, _, err := End(t.Context(), chars, text+"Ω", 5)
	if unknown, ok := errors.AsType[*UnknownError](err); !ok || unknown.Offset != len(text) {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := End(ended, chars, text, 5); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
