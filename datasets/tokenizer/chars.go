package tokenizer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// Chars numbers the distinct characters of a text in the order of their code
// points. In JSON it is the string of its characters.
type Chars struct {
	runes []rune
	ascii [utf8.RuneSelf]int32 // the ids of ASCII characters; -1 for one that it lacks
	ids   map[rune]int32       // of the other characters
}

// NewChars makes the tokenizer of a UTF-8 text's characters.
func NewChars(text string) *Chars {
	var seen CharSet
	seen.Add([]byte(text))
	return seen.Chars()
}

// CharSet collects the characters of a text.
type CharSet struct {
	ascii [utf8.RuneSelf]bool
	other map[rune]bool
}

// Add adds the characters of a text and returns how many it has.
func (s *CharSet) Add(text []byte) (count int) {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		s.add(r)
		count++
		text = text[n:]
	}
	return count
}

// AddSet adds the characters of another set.
func (s *CharSet) AddSet(from *CharSet) {
	for r, in := range from.ascii {
		s.ascii[r] = s.ascii[r] || in
	}
	for r := range from.other {
		s.add(r)
	}
}

func (s *CharSet) add(r rune) {
	switch {
	case r < utf8.RuneSelf:
		s.ascii[r] = true
	case s.other == nil:
		s.other = map[rune]bool{r: true}
	default:
		s.other[r] = true
	}
}

// Chars is the tokenizer of the set's characters.
func (s *CharSet) Chars() *Chars {
	v := &Chars{runes: slices.Collect(maps.Keys(s.other)), ids: map[rune]int32{}}
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

// Kind is char.
func (v *Chars) Kind() string { return "char" }

// Len is the number of characters.
func (v *Chars) Len() int { return len(v.runes) }

// id is the id of a character; -1 if there is none.
func (v *Chars) id(r rune) int32 {
	if r < utf8.RuneSelf {
		return v.ascii[r]
	}
	if id, ok := v.ids[r]; ok {
		return id
	}
	return -1
}

// Encode appends the ids of a text's characters.
func (v *Chars) Encode(_ context.Context, dst []uint32, text []byte) ([]uint32, error) {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		id := v.id(r)
		if id < 0 {
			return dst, &UnknownError{Offset: at, Char: r, Len: len(v.runes)}
		}
		dst = append(dst, uint32(id))
		at += n
	}
	return dst, nil
}

// EncodeRest is Encode.
func (c *Chars) EncodeRest(ctx context.Context, dst []uint32, text []byte) ([]uint32, error) {
	return c.Encode(ctx, dst, text)
}

// Decode appends the characters of ids.
func (v *Chars) Decode(dst []byte, ids []uint32) []byte {
	for _, id := range ids {
		if int64(id) >= int64(len(v.runes)) {
			dst = append(dst, Replacement...)
			continue
		}
		dst = utf8.AppendRune(dst, v.runes[id])
	}
	return dst
}

// Cut keeps characters whole.
func (v *Chars) Cut(text []byte, ended bool) int {
	if ended {
		return len(text)
	}
	return wholeChars(text)
}

// EndOfText: no character separates documents.
func (v *Chars) EndOfText() (uint32, bool) { return 0, false }

// Hash is of the characters.
func (v *Chars) Hash() string {
	sum := sha256.Sum256([]byte("char\n" + string(v.runes)))
	return hex.EncodeToString(sum[:])
}

// Runes are the characters by id. The caller must not change them.
func (v *Chars) Runes() []rune { return v.runes }

// MarshalText gives the characters.
func (v *Chars) MarshalText() ([]byte, error) { return []byte(string(v.runes)), nil }

// UnmarshalText makes the tokenizer of the characters in b.
func (v *Chars) UnmarshalText(b []byte) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("%w: the vocabulary is not UTF-8", ErrFormat)
	}
	*v = *NewChars(string(b))
	return nil
}

// wholeChars is the length of b without a character at its end that is cut off.
func wholeChars(b []byte) int {
	for n := len(b) - 1; n >= max(0, len(b)-utf8.UTFMax+1); n-- {
		if utf8.RuneStart(b[n]) {
			if !utf8.FullRune(b[n:]) {
				return n
			}
			break
		}
	}
	return len(b)
}
