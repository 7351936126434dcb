package tokenizer

import (
	"bytes"
	"context"
	"fmt"
	"unicode/utf8"
)

// mark is the character that stands for a space in tokens like SentencePiece's.
const mark = "▁"

// markRune is mark.
const markRune = '▁'

// sentencePiece is what a tokenizer like SentencePiece's has in place of words of bytes: spaces
// become marks, and a text begins as its characters. A character that is no token begins as
// the tokens of its bytes.
type sentencePiece struct {
	prepend bool            // the normalizer Prepend: a mark goes before each text between added tokens
	replace bool            // the normalizer Replace: spaces become marks
	meta    *metaspace      // nil: the file has no such pre-tokenizer
	unknown string          // the token of what is unknown, which no text needs; "": there is none
	fuse    bool            // several of it become one; written again, and of no effect
	names   []string        // by id, as the file has them
	extra   map[uint32]bool // added tokens that the model does not have

	ascii [utf8.RuneSelf]uint32 // ids of characters; goneID: it is no token
	chars map[rune]uint32       // those of the others
	bytes [256]uint32
	joins joinSet
}

// metaspace is the pre-tokenizer of that name.
type metaspace struct {
	scheme string // which texts a mark is put before, unless they begin with one
	split  bool   // each mark begins a word
}

// The schemes of metaspace.
const (
	always    = "always" // all between added tokens
	firstOnly = "first"  // those without anything before them
	never     = "never"
)

// byteName is what a file calls the token of a byte.
func byteName(b int) string { return fmt.Sprintf("<0x%02X>", b) }

// fill finds the tokens of characters and bytes, and which characters merges join. It gives
// the ids that merges know, by name.
func (s *sentencePiece) fill(pairs []pair) (map[string]uint32, error) {
	ids := make(map[string]uint32, len(s.names))
	for id, name := range s.names {
		if !s.extra[uint32(id)] {
			ids[name] = uint32(id)
		}
	}
	for b := range s.bytes {
		id, ok := ids[byteName(b)]
		if !ok {
			return nil, unsupported("model.byte_fallback", fmt.Sprintf("byte %#02x has no token %s", b, byteName(b)), supported)
		}
		s.bytes[b] = id
	}
	for b := range s.bytes { // merges are of characters: a text with the name of a byte is no byte
		delete(ids, byteName(b))
	}
	for i := range s.ascii {
		s.ascii[i] = goneID
	}
	s.chars = map[rune]uint32{}
	for name, id := range ids {
		r, n := utf8.DecodeRuneInString(name)
		switch {
		case n != len(name):
		case r < utf8.RuneSelf:
			s.ascii[r] = id
		default:
			s.chars[r] = id
		}
	}
	for _, p := range pairs {
		last, _ := utf8.DecodeLastRuneInString(s.names[p.left()])
		first, _ := utf8.DecodeRuneInString(s.names[p.right()])
		s.joins.add(last, first)
	}
	return ids, nil
}

// normalized is a text of an added token as it is in a normalized text.
func (s *sentencePiece) normalized(text string) string {
	return string(s.normalize(nil, []byte(text), begins))
}

// normalize appends a text, which is not empty, as the normalizers change it.
func (s *sentencePiece) normalize(dst, text []byte, at place) []byte {
	if s.prepend && at != goesOn {
		dst = append(dst, mark...)
	}
	if s.replace {
		return appendMarked(dst, text)
	}
	return append(dst, text...)
}

// appendMarked appends a text with marks in place of its spaces.
func appendMarked(dst, text []byte) []byte {
	for {
		n := bytes.IndexByte(text, ' ')
		if n < 0 {
			return append(dst, text...)
		}
		dst = append(append(dst, text[:n]...), mark...)
		text = text[n+1:]
	}
}

// spaced encodes a normalized text.
func (c *coder) spaced(ctx context.Context, text []byte, at place) error {
	if len(text) == 0 {
		return nil
	}
	s := c.t.spaces
	if s.meta != nil {
		c.marked = s.meta.apply(c.marked[:0], text, at)
		text = c.marked
	}
	for len(text) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := s.preToken(text)
		if id, ok := c.t.whole[string(text[:n])]; ok {
			c.out = append(c.out, id)
		} else if err := c.joined(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// joined encodes a pre-token in the pieces that no merge joins, which are like words.
func (c *coder) joined(text []byte) error {
	for len(text) > 0 {
		n := c.t.spaces.joins.length(text)
		if err := c.word(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// apply appends the marked text.
func (m *metaspace) apply(dst, text []byte, at place) []byte {
	if text[0] != ' ' && !bytes.HasPrefix(text, []byte(mark)) && (m.scheme == always && at != goesOn || m.scheme == firstOnly && at == begins) {
		dst = append(dst, mark...)
	}
	return appendMarked(dst, text)
}

// preToken is the length of the pre-token that a text begins with. A model's rule about
// whole words is for these.
func (s *sentencePiece) preToken(text []byte) int {
	if s.meta == nil || !s.meta.split {
		return len(text)
	}
	_, n := utf8.DecodeRune(text)
	if next := bytes.Index(text[n:], []byte(mark)); next >= 0 {
		return n + next
	}
	return len(text)
}

// appendFirst appends the tokens of a word before any merge.
func (s *sentencePiece) appendFirst(dst []uint32, w []byte) []uint32 {
	for len(w) > 0 {
		id, n := goneID, 1
		if w[0] < utf8.RuneSelf {
			id = s.ascii[w[0]]
		} else if r, size := utf8.DecodeRune(w); size > 1 {
			n = size
			if known, ok := s.chars[r]; ok {
				id = known
			}
		}
		if id != goneID {
			dst = append(dst, id)
		} else {
			for _, b := range w[:n] {
				dst = append(dst, s.bytes[b])
			}
		}
		w = w[n:]
	}
	return dst
}

// endsWord reports whether no merge joins the characters before and after a place in a text.
func (s *sentencePiece) endsWord(text []byte, at int) bool {
	if !utf8.RuneStart(text[at]) {
		return false
	}
	last, _ := utf8.DecodeLastRune(text[:at])
	next, _ := utf8.DecodeRune(text[at:])
	last, next = marked(last), marked(next)
	return !s.joins.has(last, next) || s.meta != nil && s.meta.split && next == markRune
}

// marked is the character that a text has in the place of another.
func marked(r rune) rune {
	if r == ' ' {
		return markRune
	}
	return r
}

// joinSet holds the neighbours that some merge joins: the last character of its left token
// and the first of its right one. Where a text has others, no token ever reaches across, so
// that it can be cut there. It may hold a few more.
type joinSet struct {
	ascii [utf8.RuneSelf][utf8.RuneSelf]bool
	all   [joinClasses * joinClasses / 64]uint64
}

// joinClasses are the characters of ASCII, the mark, and the others in so many classes.
const joinClasses = 1 << 10

func joinClass(r rune) uint32 {
	switch {
	case uint32(r) < utf8.RuneSelf:
		return uint32(r)
	case r == markRune:
		return utf8.RuneSelf
	}
	const beyond = utf8.RuneSelf + 1
	return beyond + uint32(r)%(joinClasses-beyond)
}

func (s *joinSet) add(last, next rune) {
	if uint32(last|next) < utf8.RuneSelf {
		s.ascii[last][next] = true
	}
	i := joinClass(last)*joinClasses + joinClass(next)
	s.all[i/64] |= 1 << (i % 64)
}

func (s *joinSet) has(last, next rune) bool {
	i := joinClass(last)*joinClasses + joinClass(next)
	return s.all[i/64]&(1<<(i%64)) != 0
}

// length is how far a text reaches before two characters that nothing joins.
func (s *joinSet) length(text []byte) int {
	last, n := utf8.DecodeRune(text)
	for n < len(text) {
		next := rune(text[n])
		if next < utf8.RuneSelf && last < utf8.RuneSelf {
			if !s.ascii[last][next] {
				return n
			}
			last = next
			n++
			continue
		}
		next, size := utf8.DecodeRune(text[n:])
		if !s.has(last, next) {
			return n
		}
		last, n = next, n+size
	}
	return n
}
