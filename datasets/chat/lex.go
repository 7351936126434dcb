package chat

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// token is a piece of a template. kind is 't' for text outside of tags, '{' and '%' for an
// opener, '}' for a closer, 'n' for a name, 's' for a string, 'i' for a number, 'o' for an
// operator or bracket, and 0 for the end.
type token struct {
	kind  byte
	text  string
	value int64
	line  int
}

// piece is a token within a tag, behind spaces.
var piece = regexp.MustCompile(`^(?s:\s*)(?:([A-Za-z_]\w*)|(\d+)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(==|!=|<=|>=|//|[-+*/%~<>=()\[\],:.|{}]))`)

// closing is the end of a tag.
var closing = regexp.MustCompile(`^\s*([-+]?)([%}]\})`)

// isSpace is whether Python's strip removes a character.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// lex cuts a template into tokens. Like transformers, it drops the line break behind a block
// (trim_blocks) and the spaces before one that begins a line (lstrip_blocks).
func lex(src string) (list []token) {
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src)
	src = strings.TrimSuffix(src, "\n")
	line, begins, strip := 1, true, false // begins: src begins a line
	skip := func(n int) {
		line, begins = line+strings.Count(src[:n], "\n"), n > 0 && src[n-1] == '\n'
		src = src[n:]
	}
	add := func(kind byte, text string) { list = append(list, token{kind, text, 0, line}) }
	for {
		at := opener(src)
		body := src[:at]
		if strip {
			body = strings.TrimLeftFunc(body, isSpace)
		}
		if at == len(src) {
			add('t', body)
			skip(at)
			add(0, "the end of the template")
			return list
		}
		kind, sign := src[at+1], byte(0)
		if at+2 < len(src) {
			sign = src[at+2]
		}
		n := strings.LastIndexByte(src[:at], '\n')
		switch own := strings.TrimFunc(src[n+1:at], isSpace) == "" && (n >= 0 || begins); {
		case sign == '-':
			body = strings.TrimRightFunc(body, isSpace)
		case sign != '+' && kind != '{' && own:
			body = strings.TrimRight(body, " \t\f\v")
		}
		add('t', body)
		skip(at + 2)
		if sign == '-' || sign == '+' {
			skip(1)
		}
		strip = false
		if kind == '#' {
			n := strings.Index(src, "#}")
			if n < 0 {
				fail(line, "the comment does not end: close it with #}")
			}
			strip, sign = n > 0 && src[n-1] == '-', 0
			skip(n + 2)
		} else {
			add(kind, string(kind))
			sign = lexTag(&src, kind, &line, skip, &list)
			strip = sign == '-'
		}
		if kind != '{' && sign != '+' && strings.HasPrefix(src, "\n") {
			skip(1)
		}
	}
}

// opener is the place of the next tag, or the length of src.
func opener(src string) int {
	for i := 0; i+1 < len(src); i++ {
		if src[i] == '{' && strings.IndexByte("{%#", src[i+1]) >= 0 {
			return i
		}
	}
	return len(src)
}

// lexTag reads the rest of a tag, and gives the sign before its end, or 0.
func lexTag(src *string, kind byte, line *int, skip func(int), list *[]token) (sign byte) {
	for depth := 0; ; {
		end := closing.FindStringSubmatchIndex(*src)
		if end != nil && depth == 0 && ((*src)[end[4]] == '%') == (kind == '%') {
			*list = append(*list, token{'}', "the end of the tag", 0, *line})
			if end[3] > end[2] {
				sign = (*src)[end[2]]
			}
			skip(end[1])
			return sign
		}
		at := piece.FindStringSubmatchIndex(*src)
		if at == nil {
			rest := []rune(strings.TrimLeftFunc(*src, isSpace) + " ")
			fail(*line, "%q is not supported, or the tag is not closed", string(rest[0]))
		}
		t := token{line: *line + strings.Count((*src)[:at[1]], "\n")}
		for group, kind := range []byte("niso") {
			if from := at[2*group+2]; from >= 0 {
				t.kind, t.text = kind, (*src)[from:at[1]]
			}
		}
		switch t.text[0] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		switch t.kind {
		case 'i':
			var err error
			if t.value, err = strconv.ParseInt(t.text, 10, 32); err != nil {
				fail(*line, "the number %s is too large", t.text)
			}
		case 's':
			t.text = unquoted(t.text[1:len(t.text)-1], *line)
		}
		*list = append(*list, t)
		skip(at[1])
	}
}

// unquoted is a string without escapes.
func unquoted(s string, line int) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; c == '\\' {
			i++
			at := strings.IndexByte("ntr\\'\"", s[i])
			if at < 0 {
				fail(line, "the escape \\%c is not supported: write the character itself", s[i])
			}
			b.WriteByte("\n\t\r\\'\""[at])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
