package tokenizer

import (
	"context"
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
	mostMatchFor = time.Second      // for one match
	mostSplitFor = 10 * time.Second // for a piece of text
)

// newSplit is the splitter of an expression.
func newSplit(expr string, isolated bool) (splitter, error) {
	switch expr { // they match all text: nothing is between
	case gpt2Pattern:
		return gpt2Split{}, nil
	case llamaPattern:
		return llamaSplit{3, expr}, nil
	case qwenPattern:
		return llamaSplit{1, expr}, nil
	}
	if len(expr) > mostPattern {
		return nil, fmt.Errorf("%w: the split pattern has %d bytes, more than %d", ErrFormat, len(expr), mostPattern)
	}
	re, err := regexp2.Compile(expr, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("%w: the split pattern %q is not understood: %v", ErrFormat, expr, err)
	}
	re.MatchTimeout = mostMatchFor
	return &patternSplit{expr, re, isolated}, nil
}

func (p *patternSplit) pattern() (string, bool) { return p.expr, p.isolated }

// each splits what is UTF-8. Each other byte is a word.
func (p *patternSplit) each(ctx context.Context, text []byte, f func(word []byte) error) error {
	for len(text) > 0 {
		n := validLength(text)
		if err := p.eachValid(ctx, text[:n], f); err != nil {
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
func (p *patternSplit) eachValid(ctx context.Context, text []byte, f func(word []byte) error) error {
	if len(text) == 0 {
		return nil
	}
	var spent time.Duration
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
	m, err := p.match(ctx, func() (*regexp2.Match, error) { return p.re.FindRunesMatch(runes) }, &spent)
	for err == nil && m != nil {
		if err := between(m.Index); err != nil {
			return err
		}
		if word := take(m.Index + m.Length); len(word) > 0 {
			if err := f(word); err != nil {
				return err
			}
		}
		last := m
		m, err = p.match(ctx, func() (*regexp2.Match, error) { return p.re.FindNextMatch(last) }, &spent)
	}
	if err != nil {
		return err
	}
	return between(len(runes))
}

// match finds a match, nil after the last one, and adds its time to spent. It tries
// twice: the process may have been stopped while it matched.
func (p *patternSplit) match(ctx context.Context, find func() (*regexp2.Match, error), spent *time.Duration) (*regexp2.Match, error) {
	for range 2 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		began := time.Now()
		m, err := find()
		if *spent += min(time.Since(began), mostMatchFor); *spent > mostSplitFor {
			break
		}
		if err == nil {
			return m, nil
		}
	}
	return nil, p.tooSlow()
}

func (p *patternSplit) tooSlow() error {
	return fmt.Errorf("%w: the split pattern %q takes more than %v for a word or %v for a piece of text: use another tokenizer", ErrFormat, p.expr, mostMatchFor, mostSplitFor)
}
