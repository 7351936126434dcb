package datasets

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Vocabulary numbers the distinct characters of a text in the order of their
// code points. It never changes. In JSON it is the string of its characters.
type Vocabulary struct {
	runes []rune
	ascii [utf8.RuneSelf]int32 // the ids of ASCII characters; -1 for one that it lacks
	ids   map[rune]int32       // of the other characters
}

// NewVocabulary makes the vocabulary of a UTF-8 text.
func NewVocabulary(text string) *Vocabulary {
	var seen runeSet
	for _, r := range text {
		seen.add(r)
	}
	return seen.vocabulary()
}

// runeSet is a set of characters.
type runeSet struct {
	ascii [utf8.RuneSelf]bool
	other map[rune]bool
}

func (s *runeSet) add(r rune) {
	switch {
	case r < utf8.RuneSelf:
		s.ascii[r] = true
	case s.other == nil:
		s.other = map[rune]bool{r: true}
	default:
		s.other[r] = true
	}
}

// vocabulary is the vocabulary of the set's characters.
func (s *runeSet) vocabulary() *Vocabulary {
	v := &Vocabulary{runes: slices.Collect(maps.Keys(s.other)), ids: map[rune]int32{}}
	for r, in := range s.ascii {
		if v.ascii[r] = -1; in {
			v.runes = append(v.runes, rune(r))
		}
	}
	slices.Sort(v.runes)
	for i, r := range v.runes {
		if r < utf8.RuneSelf {
			v.ascii[r] = int32(i)
		} else {
			v.ids[r] = int32(i)
		}
	}
	return v
}

// id is the id of a character; -1 if the vocabulary lacks it.
func (v *Vocabulary) id(r rune) int32 {
	if r < utf8.RuneSelf {
		return v.ascii[r]
	}
	if id, ok := v.ids[r]; ok {
		return id
	}
	return -1
}

// Len is the number of characters: ids are in [0, Len()).
func (v *Vocabulary) Len() int { return len(v.runes) }

// Encode gives the ids of a text's characters. A character that is not in the
// vocabulary is an ErrFormat with its line and column.
func (v *Vocabulary) Encode(text string) ([]int32, error) {
	ids := make([]int32, 0, utf8.RuneCountInString(text))
	for at, r := range text {
		id := v.id(r)
		if id < 0 {
			return nil, v.lacks(r, start.after([]byte(text[:at])))
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// lacks is the error about a character that is not in the vocabulary.
func (v *Vocabulary) lacks(r rune, at textPos) error {
	return fmt.Errorf("%w: line %d, column %d: %q is not among the %d characters of the vocabulary", ErrFormat, at.line, at.column, r, len(v.runes))
}

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

// Decode gives the text of ids. An id outside the vocabulary becomes U+FFFD.
func (v *Vocabulary) Decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		if id < 0 || int(id) >= len(v.runes) {
			b.WriteRune(utf8.RuneError)
			continue
		}
		b.WriteRune(v.runes[id])
	}
	return b.String()
}

// MarshalText gives the vocabulary's characters.
func (v *Vocabulary) MarshalText() ([]byte, error) { return []byte(string(v.runes)), nil }

// UnmarshalText makes the vocabulary of the characters in b.
func (v *Vocabulary) UnmarshalText(b []byte) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("%w: the vocabulary is not UTF-8", ErrFormat)
	}
	*v = *NewVocabulary(string(b))
	return nil
}
