package columns

import (
	"strconv"
	"strings"
)

// Words finds words in a list: the values of a category, or the names of classes. nil has none.
type Words struct {
	index   map[string]int32
	byValue map[string]int32 // of those that are booleans or numbers, by their plainValue
}

// NewWords makes the index of a list of different words. Of words with the same value, such as
// 1 and 1.0, the first stands for it.
func NewWords(list []string) *Words {
	w := &Words{make(map[string]int32, len(list)), map[string]int32{}}
	for i, word := range list {
		w.index[word] = int32(i)
		plain := plainValue(word)
		if _, known := w.byValue[plain]; plain != "" && !known {
			w.byValue[plain] = int32(i)
		}
	}
	return w
}

// Find is the index of a word.
func (w *Words) Find(word []byte) (i int32, known bool) {
	if w != nil {
		i, known = w.index[string(word)]
	}
	return i, known
}

// FindValue is the index of the word for a boolean or a number, however it is spelt: True for true,
// and 1.0 for 1.
func (w *Words) FindValue(word []byte) (i int32, known bool) {
	if i, known = w.Find(word); known || w == nil {
		return i, known
	}
	i, known = w.byValue[plainValue(string(word))]
	return i, known
}

// plainValue is one text for all words of a number, such as 2, 2.0 and 2e0, and for those of
// true and of false; "" for other words.
func plainValue(word string) string {
	field := []byte(word)
	if len(field) > 0 && isNumber(field) {
		return plainNumber(word)
	}
	if v, ok := boolean(field); ok {
		return strconv.FormatBool(v)
	}
	return ""
}

// plainNumber is one text for all words of a number; "" for one that is out of range. Whole numbers
// keep all their digits: they may be keys.
func plainNumber(word string) string {
	if v, err := strconv.ParseInt(word, 10, 64); err == nil {
		return strconv.FormatInt(v, 10)
	}
	v, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatFloat(v+0, 'f', -1, 64) // -0 + 0 is 0
}

// IsValue reports whether a text, in a format that does not tell texts from values, reads as a
// boolean or a number: true or false, in upper or lower case, or a number without zeros in front, as
// a code may have them.
func IsValue(text []byte) bool {
	if len(text) == 0 {
		return false
	}
	if isNumber(text) {
		digits := strings.TrimLeft(string(text), "+-")
		return len(digits) < 2 || digits[0] != '0' || digits[1] < '0' || digits[1] > '9'
	}
	return strings.EqualFold(string(text), "true") || strings.EqualFold(string(text), "false")
}
