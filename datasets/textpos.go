package datasets

import (
	"bytes"
	"unicode/utf8"
)

// textPos is a position in a text: the line, and the column in characters, from 1.
type textPos struct{ line, column int }

// start is the position of a text's first character.
var start = textPos{1, 1}

// after is the position that text leads to from p.
func (p textPos) after(text []byte) textPos {
	if last := bytes.LastIndexByte(text, '\n'); last >= 0 {
		p.line, p.column, text = p.line+bytes.Count(text, []byte("\n")), 1, text[last+1:]
	}
	p.column += utf8.RuneCount(text)
	return p
}

// invalidAt is the position of the first byte of a text that is not UTF-8.
func invalidAt(text []byte) int {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return len(text)
}
