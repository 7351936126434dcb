package tokenizer

import (
	"bytes"
	"unicode/utf8"
)

// Stream decodes ids that come one after the other, and gives out their text in whole
// characters. It ends before the first of its stop texts. Bytes that are no UTF-8 become
// U+FFFD. It is for one goroutine.
type Stream struct {
	t     Tokenizer
	stops [][]byte
	held  []byte // not given out yet: the beginning of a character or of a stop text
	id    [1]uint32
}

// NewStream begins a stream that ends before the first of the stop texts, none of which
// is empty.
func NewStream(t Tokenizer, stops ...string) *Stream {
	s := &Stream{t: t}
	for _, stop := range stops {
		s.stops = append(s.stops, []byte(stop))
	}
	return s
}

// Add appends the text that can be given out once id has come to dst. ended says that a
// stop text has come: the stream is then over.
func (s *Stream) Add(dst []byte, id int32) (text []byte, ended bool) {
	s.id[0] = uint32(id)
	s.held = s.t.Decode(s.held, s.id[:])
	at, open := len(s.held), len(s.held)
	for _, stop := range s.stops {
		if i := bytes.Index(s.held, stop); i >= 0 && i < at {
			at, ended = i, true
		}
		open = min(open, len(s.held)-beginning(s.held, stop))
	}
	if !ended {
		at = open
	}
	return s.give(dst, at), ended
}

// End appends what is held back because a stop text might have followed. The beginning of
// a character is not given out.
func (s *Stream) End(dst []byte) []byte { return s.give(dst, len(s.held)) }

// give moves the whole characters of the first n bytes that are held to dst.
func (s *Stream) give(dst []byte, n int) []byte {
	at := 0
	for at < n && utf8.FullRune(s.held[at:n]) {
		r, size := utf8.DecodeRune(s.held[at:n])
		dst = utf8.AppendRune(dst, r)
		at += size
	}
	s.held = append(s.held[:0], s.held[at:]...)
	return dst
}

// beginning is the length of the longest end of text that a longer text, stop, begins
// with.
func beginning(text, stop []byte) int {
	for n := min(len(text), len(stop)-1); n > 0; n-- {
		if bytes.HasSuffix(text, stop[:n]) {
			return n
		}
	}
	return 0
}
