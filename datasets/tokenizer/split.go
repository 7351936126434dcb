package tokenizer

import (
	"context"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// A splitter splits a text into words.
type splitter interface {
	// each calls f for each word of text in order, and ends with its first error, or
	// with ctx where that takes long.
	each(ctx context.Context, text []byte, f func(word []byte) error) error
	// pattern is its regular expression, and whether text between matches is a
	// word too.
	pattern() (expr string, isolated bool)
}

// splitAll splits text with the first splitter, its words with the second, and so
// on.
func splitAll(ctx context.Context, split []splitter, text []byte, f func(word []byte) error) error {
	if len(text) == 0 {
		return nil
	}
	if len(split) == 1 {
		return split[0].each(ctx, text, f)
	}
	return split[0].each(ctx, text, func(word []byte) error { return splitAll(ctx, split[1:], word, f) })
}

// gpt2Pattern is the split pattern of GPT-2.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// gpt2Split splits as gpt2Pattern does, ten times as fast as a regular
// expression.
type gpt2Split struct{}

func (gpt2Split) pattern() (string, bool) { return gpt2Pattern, true }

func (gpt2Split) each(_ context.Context, text []byte, f func(word []byte) error) error {
	for len(text) > 0 {
		n := gpt2Word(text)
		if err := f(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// class is the kind of a character in gpt2Pattern.
type class uint8

const (
	other  class = iota // [^\s\p{L}\p{N}]
	letter              // \p{L}
	number              // \p{N}
	space               // \s
)

var asciiClass = func() (of [utf8.RuneSelf]class) {
	for r := range of {
		of[r] = classOf(rune(r))
	}
	return of
}()

func classOf(r rune) class {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// first is the class of text's first character, and its length in bytes.
func first(text []byte) (class, int) {
	if text[0] < utf8.RuneSelf {
		return asciiClass[text[0]], 1
	}
	r, n := utf8.DecodeRune(text)
	if r >= blocks*blockRunes {
		return classOf(r), n
	}
	b := classBlocks[r/blockRunes].Load()
	if b == nil {
		b = new([blockRunes]class)
		for i := range b {
			b[i] = classOf(r/blockRunes*blockRunes + rune(i))
		}
		classBlocks[r/blockRunes].Store(b)
	}
	return b[r%blockRunes], n
}

// classBlocks are the classes of the characters of each script, once one of it was asked for.
var classBlocks [blocks]atomic.Pointer[[blockRunes]class]

const (
	blocks     = 1 << 8
	blockRunes = 1 << 8
)

// gpt2Word is the length of text's first word. text is not empty.
func gpt2Word(text []byte) int {
	if n := contraction(text); n > 0 {
		return n
	}
	begin := 0
	if text[0] == ' ' && len(text) > 1 {
		begin = 1
	}
	c, n := first(text[begin:])
	if c != space {
		return begin + n + run(text[begin+n:], c)
	}
	return spaces(text)
}

// contraction is the length of 's, 're and the like at the beginning of text; 0
// if none is there.
func contraction(text []byte) int {
	if text[0] != '\'' || len(text) < 2 {
		return 0
	}
	switch text[1] {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v', 'l':
		if len(text) > 2 && (text[2] == 'e' && text[1] != 'l' || text[2] == 'l' && text[1] == 'l') {
			return 3
		}
	}
	return 0
}

// run is the length of the beginning of text whose characters are all of a class.
func run(text []byte, c class) (length int) {
	for length < len(text) {
		next, n := first(text[length:])
		if next != c {
			break
		}
		length += n
	}
	return length
}

// spaces is the length of the word that white space at the beginning of text is.
// The last of several before a word is left to it.
func spaces(text []byte) int {
	length := run(text, space)
	if length == len(text) {
		return length
	}
	_, last := utf8.DecodeLastRune(text[:length])
	if length > last {
		return length - last
	}
	return length
}
