package tokenizer

import (
	"context"
	"unicode"
	"unicode/utf8"
)

// The split patterns of Llama 3 and of Qwen2, which differ in how many digits a word has.
const (
	llamaPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwenPattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// llamaSplit splits as llamaPattern or qwenPattern does, many times as fast as a regular
// expression.
type llamaSplit struct {
	digits int // of a word, at most
	expr   string
}

func (s llamaSplit) pattern() (string, bool) { return s.expr, true }

func (s llamaSplit) each(_ context.Context, text []byte, f func(word []byte) error) error {
	for len(text) > 0 {
		n := s.word(text)
		if err := f(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// word is the length of text's first word. text is not empty.
func (s llamaSplit) word(text []byte) int {
	if n := anyContraction(text); n > 0 {
		return n
	}
	c, n := first(text)
	switch {
	case c == letter:
		return n + run(text[n:], letter)
	case c == number:
		return s.number(text)
	case !isBreak(text[0]) && n < len(text):
		if next, size := first(text[n:]); next == letter {
			return n + size + run(text[n+size:], letter)
		}
	}
	if c == other {
		return punctuation(text)
	}
	if text[0] == ' ' && len(text) > 1 {
		if next, _ := first(text[1:]); next == other {
			return 1 + punctuation(text[1:])
		}
	}
	return breaks(text)
}

// number is the length of the digits that text begins with, as far as they are a word.
func (s llamaSplit) number(text []byte) (length int) {
	for range s.digits {
		if length == len(text) {
			break
		}
		c, n := first(text[length:])
		if c != number {
			break
		}
		length += n
	}
	return length
}

// isBreak reports whether a byte ends a line.
func isBreak(b byte) bool { return b == '\n' || b == '\r' }

// punctuation is the length of the other characters that text begins with, and of the line
// ends behind them.
func punctuation(text []byte) int {
	length := run(text, other)
	for length < len(text) && isBreak(text[length]) {
		length++
	}
	return length
}

// breaks is spaces, but white space with line ends is a word up to the last of them.
func breaks(text []byte) int {
	for at := run(text, space); at > 0; at-- {
		if isBreak(text[at-1]) {
			return at
		}
	}
	return spaces(text)
}

// anyContraction is the length of 's, 'RE and the like at the beginning of text; 0 if none is
// there.
func anyContraction(text []byte) int {
	if text[0] != '\'' || len(text) < 2 {
		return 0
	}
	one, n := utf8.DecodeRune(text[1:])
	switch folded(one) {
	case 's', 't', 'm', 'd':
		return 1 + n
	}
	if len(text) < 3 {
		return 0
	}
	switch string(unicode.ToLower(rune(text[1]))) + string(unicode.ToLower(rune(text[2]))) {
	case "re", "ve", "ll":
		return 3
	}
	return 0
}

// folded is a letter in lower case. A long s is an s.
func folded(r rune) rune {
	if r == 'ſ' {
		return 's'
	}
	return unicode.ToLower(r)
}
