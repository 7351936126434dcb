package datasets

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Vocabulary numbers the distinct characters of a text in the order of their
// code points. It never changes. In JSON it is the string of its characters.
type Vocabulary struct {
	runes []rune
	ids   map[rune]int32
}

// NewVocabulary makes the vocabulary of a UTF-8 text.
func NewVocabulary(text string) *Vocabulary {
	v := &Vocabulary{ids: map[rune]int32{}}
	for _, r := range text {
		if _, known := v.ids[r]; !known {
			v.ids[r] = 0
			v.runes = append(v.runes, r)
		}
	}
	slices.Sort(v.runes)
	for i, r := range v.runes {
		v.ids[r] = int32(i)
	}
	return v
}

// Len is the number of characters: ids are in [0, Len()).
func (v *Vocabulary) Len() int { return len(v.runes) }

// Encode gives the ids of a text's characters. A character that is not in the
// vocabulary is an ErrFormat with its line and column.
func (v *Vocabulary) Encode(text string) ([]int32, error) {
	ids := make([]int32, 0, utf8.RuneCountInString(text))
	for at, r := range text {
		id, ok := v.ids[r]
		if !ok {
			line, column := position(text, at)
			return nil, fmt.Errorf("%w: line %d, column %d: %q is not among the %d characters of the vocabulary", ErrFormat, line, column, r, len(v.runes))
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// position gives the line, and the column in characters, of byte at of a text.
// Both count from 1.
func position(text string, at int) (line, column int) {
	before := text[:at]
	line = strings.Count(before, "\n") + 1
	return line, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
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
