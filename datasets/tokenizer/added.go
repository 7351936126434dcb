package tokenizer

import (
	"slices"
)

// Added is a token that is found in the text before it is split into words, such
// as <|endoftext|>.
type Added struct {
	ID      uint32
	Text    string
	Special bool // it marks something, and is no text
}

// EndOfText is the text of the token that separates documents.
const EndOfText = "<|endoftext|>"

// addedSet finds added tokens in text.
type addedSet struct {
	list    []Added // by id
	byText  map[string]Added
	starts  [256]bool // of first bytes
	lengths []int     // of the texts in bytes, without repetition: the longest first
}

func newAddedSet(list []Added) *addedSet {
	s := &addedSet{list: slices.SortedFunc(slices.Values(list), func(a, b Added) int { return int(a.ID) - int(b.ID) }), byText: map[string]Added{}}
	for _, a := range s.list {
		s.byText[a.Text] = a
		s.starts[a.Text[0]] = true
		s.lengths = append(s.lengths, len(a.Text))
	}
	slices.Sort(s.lengths)
	s.lengths = slices.Compact(s.lengths)
	slices.Reverse(s.lengths)
	return s
}

// at finds the longest token that begins at a place in text.
func (s *addedSet) at(text []byte, place int) (Added, bool) {
	if !s.starts[text[place]] {
		return Added{}, false
	}
	for _, n := range s.lengths {
		if n > len(text)-place {
			continue
		}
		if a, ok := s.byText[string(text[place:place+n])]; ok {
			return a, true
		}
	}
	return Added{}, false
}

// find finds the first token in text, and of those that begin there the longest.
// Without any, from is the length of text.
func (s *addedSet) find(text []byte) (from int, found Added) {
	if len(s.list) == 0 {
		return len(text), Added{}
	}
	for place, b := range text {
		if !s.starts[b] {
			continue
		}
		if a, ok := s.at(text, place); ok {
			return place, a
		}
	}
	return len(text), Added{}
}

// holds reports whether a place in text is inside a token.
func (s *addedSet) holds(text []byte, place int) bool {
	if len(s.list) == 0 {
		return false
	}
	for from := max(0, place-s.lengths[0]+1); from < place; from++ {
		if a, ok := s.at(text, from); ok && from+len(a.Text) > place {
			return true
		}
	}
	return false
}
