package tokenizer

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// patternSplit splits by a regular expression. Its matches are words, and, if
// isolated, the text between them as well; otherwise that is dropped.
type patternSplit struct {
	expr     string
	re       *regexp2.Regexp
	isolated bool
}

// Limits on splitting. Real patterns take milliseconds.
const (
	mostPattern  = 8 << 10          // bytes of an expression
	mostSplitFor = 10 * time.Second // for a piece of text
)

// newSplit is the splitter of an expression.
func newSplit(expr string, isolated bool) (splitter, error) {
	if expr == gpt2Pattern { // it matches all text: nothing is between
		return gpt2Split{}, nil
	}
	if len(expr) > mostPattern {
		return nil, fmt.Errorf("%w: the split pattern has %d bytes, more than %d", ErrFormat, len(expr), mostPattern)
	}
	re, err := regexp2.Compile(expr, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("%w: the split pattern %q is not understood: %v", ErrFormat, expr, err)
	}
	re.MatchTimeout = mostSplitFor
	return &patternSplit{expr, re, isolated}, nil
}

func (p *patternSplit) pattern() (string, bool) { return p.expr, p.isolated }

// each splits what is UTF-8. Each other byte is a word.
func (p *patternSplit) each(text []byte, f func(word []byte) error) error {
	for len(text) > 0 {
		n := validLength(text)
		if err := p.eachValid(text[:n], f); err != nil {
			return err
		}
		if text = text[n:]; len(text) > 0 {
			if err := f(text[:1]); err != nil {
				return err
			}
			text = text[1:]
		}
	}
	return nil
}

// validLength is the length of the beginning of text that is UTF-8.
func validLength(text []byte) int {
	if utf8.Valid(text) {
		return len(text)
	}
	at := 0
	for at < len(text) {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

// eachValid is each for UTF-8. The expression counts in characters, text in bytes.
func (p *patternSplit) eachValid(text []byte, f func(word []byte) error) error {
	if len(text) == 0 {
		return nil
	}
	began := time.Now()
	runes := []rune(string(text))
	chars := 0 // before text, which is what is left
	take := func(to int) (word []byte) {
		n := 0
		for ; chars < to; chars++ {
			n += utf8.RuneLen(runes[chars])
		}
		word, text = text[:n], text[n:]
		return word
	}
	between := func(to int) error {
		if gap := take(to); len(gap) > 0 && p.isolated {
			return f(gap)
		}
		return nil
	}
	m, err := p.re.FindRunesMatch(runes)
	for ; err == nil && m != nil; m, err = p.re.FindNextMatch(m) {
		if time.Since(began) > mostSplitFor {
			return p.tooSlow()
		}
		if err := between(m.Index); err != nil {
			return err
		}
		if word := take(m.Index + m.Length); len(word) > 0 {
			if err := f(word); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return p.tooSlow()
	}
	return between(len(runes))
}

func (p *patternSplit) tooSlow() error {
	return fmt.Errorf("%w: the split pattern %q takes more than %v for a piece of text: use another tokenizer", ErrFormat, p.expr, mostSplitFor)
}
