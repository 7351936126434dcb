package tokenizer

import (
	"errors"
	"slices"
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
