package columns

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is a kind of column.
type Kind string

// The kinds of columns. The last three are left out of a model.
const (
	Number     Kind = "number"
	Boolean    Kind = "boolean"    // two words such as yes and no
	Category   Kind = "category"   // one of some words
	Date       Kind = "date"       // a day, or a day and a time
	Text       Kind = "text"       // sentences
	Identifier Kind = "identifier" // another word in almost every row
	Ignore     Kind = "ignore"     // as asked for, or without any value
)

// Kinds lists the kinds that may be asked for.
var Kinds = []Kind{Number, Boolean, Category, Date, Text, Identifier, Ignore}

// goesIn reports whether a model sees columns of the kind.
func (k Kind) goesIn() bool { return k == Number || k == Boolean || k == Category || k == Date }

// The values of Option.Missing.
const (
	FillMedian   = "median"   // of numbers and dates
	FillFrequent = "frequent" // the most frequent value
	FillRefuse   = "refuse"   // a missing value is an error
)

// Fills lists the values of Option.Missing.
var Fills = []string{FillMedian, FillFrequent, FillRefuse}

// The orders of the numbers of a date: the values of Option.Order.
const (
	YMD = "ymd"
	DMY = "dmy"
	MDY = "mdy"
)

// Orders lists the values of Option.Order.
var Orders = []string{YMD, DMY, MDY}

// The thresholds by which kinds are found. "Almost" is almostTenths of ten.
const (
	almostTenths = 9
	// few is the most different words that are always a category.
	few = 32
	// DefaultTop is the values of a category that get a feature each.
	DefaultTop = 32
	// MaxTop bounds Option.Top, and the different words that are counted in a column.
	MaxTop = 1 << 16
	// sentence is the words of a value from which on it counts as a sentence.
	sentence = 3
	// longest is the bytes of a value up to which it is compared byte by byte. A longer one
	// is known by its beginning and its hash.
	longest = 256
)

// Option says how a column is used. A zero field means: as it is found.
type Option struct {
	Name    string // of the column, or its number; All: every column without an option of its own
	Kind    Kind
	Missing string // FillMedian, FillFrequent or FillRefuse
	Top     int    // of a category: the values that get a feature each; 0: DefaultTop
	Order   string // of a date: YMD, DMY or MDY
}

// All is the name of the option for all columns without their own.
const All = "*"

// Options say how the columns of a table are used.
type Options struct {
	// Missing are the words that stand for a missing value, beside the empty field. nil
	// means those of IsMissing.
	Missing []string
	Columns []Option
}

// Given reports whether anything was asked for.
func (o Options) Given() bool { return o.Missing != nil || o.Columns != nil }

// byName are the options by the name of their column.
func (o Options) byName() map[string]Option {
	out := make(map[string]Option, len(o.Columns))
	for _, x := range o.Columns {
		out[x.Name] = x
	}
	return out
}

// missingWords stand for a missing value unless other words are given, in upper or
// lower case.
var missingWords = []string{"na", "n/a", "null", "?", "nan"}

// IsMissing reports whether a trimmed field stands for a missing value: an empty
// one, and one of words. nil words are NA, N/A, null, ? and nan, in upper or lower
// case; others are compared as they are.
func IsMissing(words []string, field []byte) bool {
	switch {
	case len(field) == 0:
		return true
	case words != nil:
		return slices.Contains(words, string(field)) || isMissingNumber(words, field)
	case len(field) > 4:
		return false
	}
	for _, w := range missingWords {
		if len(w) == len(field) && strings.EqualFold(w, string(field)) {
			return true
		}
	}
	return false
}

// usualSpellings are the words that stand for a missing value unless others are given, as they are written:
// a list is compared letter by letter.
var usualSpellings = []string{"NA", "na", "Na", "N/A", "n/a", "null", "NULL", "Null", "?", "nan", "NaN", "NAN"}

// MissingList is a list of words for a missing value with another one, as YAML has it. Whoever writes it
// into a config that has none keeps what was missing, so it has the usual spellings.
func MissingList(words []string, more string) string {
	if words == nil {
		words = usualSpellings
	}
	var quoted []string
	for _, w := range append(slices.Clone(words), fmt.Sprintf("%.40s", more)) {
		quoted = append(quoted, strconv.Quote(w))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// isMissingNumber reports whether a field is the number of one of the words: -999.0 is that of -999.
func isMissingNumber(words []string, field []byte) bool {
	if !isNumber(field) || !IsValue(field) {
		return false
	}
	v, _ := strconv.ParseFloat(string(field), 64)
	return slices.ContainsFunc(words, func(word string) bool {
		if word == "" || !isNumber([]byte(word)) {
			return false
		}
		other, _ := strconv.ParseFloat(word, 64)
		return v == other && plainNumber(word) == plainNumber(string(field))
	})
}

// MissingTexts lists the fields for which IsMissing holds, but for other spellings of numbers
// among the words.
func MissingTexts(words []string) []string {
	texts := []string{""}
	if words != nil {
		return append(texts, words...)
	}
	for _, w := range missingWords {
		texts = append(texts, spellings(w)...)
	}
	return texts
}

// MissingNumbers are the numbers among the words that stand for a missing value.
func MissingNumbers(words []string) (numbers []float32) {
	for _, w := range words {
		if w == "" || !isNumber([]byte(w)) {
			continue
		}
		if v, err := number([]byte(w)); err == nil {
			numbers = append(numbers, v)
		}
	}
	return numbers
}

// spellings are all ways to write a word in upper and lower case.
func spellings(word string) []string {
	if word == "" {
		return []string{""}
	}
	var out []string
	for _, rest := range spellings(word[1:]) {
		lower, upper := word[:1], strings.ToUpper(word[:1])
		if out = append(out, lower+rest); upper != lower {
			out = append(out, upper+rest)
		}
	}
	return out
}

// isNumber reports whether a field looks like a number. It may be out of range.
func isNumber(field []byte) bool {
	if c := field[0]; c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') {
		return false // among them inf and nan, which no data means as numbers
	}
	_, err := strconv.ParseFloat(string(field), 32)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// number reads a finite number.
func number(field []byte) (float32, error) {
	v, err := strconv.ParseFloat(string(field), 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%.40q is beyond the range of float32, ±%.4g: scale the column, or take the row out", field, math.MaxFloat32)
	case err != nil:
		return 0, &unfit{noNumber(string(field)), wordAdvice}
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, &unfit{fmt.Sprintf("%.40q is not finite", field), "take the row out, or name it in data.missing"}
	}
	return float32(v), nil
}

// unfit is the error of a value that a column cannot have, with what to do about it in a file to
// train on.
type unfit struct{ what, advice string }

func (u *unfit) Error() string { return u.what + ": " + u.advice }

// wordAdvice says what to do about a word among numbers or dates. A Finder knows
// more about the column.
const wordAdvice = "correct it, leave it empty if it may be missing, or name it in data.missing"

// pairs are the words of booleans: the first of each is 0, the second 1.
var pairs = [][2]string{{"no", "yes"}, {"false", "true"}, {"n", "y"}, {"off", "on"}}

// boolean reads a boolean in any of its words.
func boolean(field []byte) (value, ok bool) {
	for _, p := range pairs {
		for i, word := range p {
			if strings.EqualFold(word, string(field)) {
				return i == 1, true
			}
		}
	}
	switch string(field) {
	case "0", "1":
		return field[0] == '1', true
	}
	return false, false
}

// Truth reads a field that is 0 or 1, also as a number such as 1.0, or a word for one of them.
func Truth(field []byte) (value, ok bool) {
	if v, err := strconv.ParseFloat(string(field), 64); err == nil {
		return v == 1, v == 0 || v == 1
	}
	return boolean(field)
}

// IsPair reports whether two words are those of a boolean.
func IsPair(a, b string) bool {
	for _, p := range pairs {
		if strings.EqualFold(a, p[0]) && strings.EqualFold(b, p[1]) || strings.EqualFold(b, p[0]) && strings.EqualFold(a, p[1]) {
			return true
		}
	}
	return false
}

// wordOf is a field as it is counted and compared.
func wordOf(field []byte) []byte {
	if len(field) <= longest {
		return field
	}
	sum := sha256.Sum256(field)
	return fmt.Appendf(nil, "%s… (%x)", bytes.ToValidUTF8(field[:longest/2], nil), sum[:16])
}

// isSentence reports whether a field has several words.
func isSentence(field []byte) bool {
	words := 0
	for range bytes.FieldsSeq(field) {
		if words++; words == sentence {
			return true
		}
	}
	return false
}

// dateOrders are the orders in which a field can be read as a date, by the indices of
// Orders. A field that is not a date has none.
func dateOrders(field []byte) (fits [3]bool) {
	for i, order := range Orders {
		_, fits[i] = date(field, order)
	}
	return fits
}

// IsDate reports whether a field can be read as a date.
func IsDate(field []byte) bool { return dateOrders(field) != [3]bool{} }

// date reads a day, such as 2024-02-29, with the numbers in an order, and a time
// after it, such as T13:05:59.25+02:00. It gives the hours from 1970 on, as the field
// has them: an offset from UTC does not count.
func date(field []byte, order string) (hours int32, ok bool) {
	var n [3]int
	rest := field
	sep := byte(0)
	for i := range n {
		var digits int
		if n[i], digits, rest = digitsOf(rest); digits == 0 || digits > 4 || digits == 3 {
			return 0, false
		}
		if year := (order == YMD && i == 0) || (order != YMD && i == 2); year != (digits == 4) {
			return 0, false
		}
		if i == 2 {
			break
		}
		if len(rest) == 0 || !bytes.ContainsRune([]byte("-/."), rune(rest[0])) || sep != 0 && rest[0] != sep {
			return 0, false
		}
		sep, rest = rest[0], rest[1:]
	}
	y, m, d := n[0], n[1], n[2]
	switch order {
	case DMY:
		y, m, d = n[2], n[1], n[0]
	case MDY:
		y, m, d = n[2], n[0], n[1]
	}
	hour, ok := timeOfDay(rest)
	t := time.Date(y, time.Month(m), d, hour, 0, 0, 0, time.UTC)
	if !ok || m < 1 || m > 12 || d < 1 || t.Day() != d {
		return 0, false
	}
	return int32(t.Unix() / 3600), true // a whole number of hours
}

// digitsOf reads the digits that a text begins with, at most five.
func digitsOf(b []byte) (value, digits int, rest []byte) {
	for digits < min(5, len(b)) && b[digits] >= '0' && b[digits] <= '9' {
		value = value*10 + int(b[digits]-'0')
		digits++
	}
	return value, digits, b[digits:]
}

// timeOfDay reads what follows a day: nothing, or a time such as " 13:05",
// "T13:05:59.25" or " 1:05 PM", which an offset from UTC may follow. It gives the hour.
func timeOfDay(b []byte) (hour int, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	if b[0] != ' ' && b[0] != 'T' {
		return 0, false
	}
	hour, digits, rest := digitsOf(bytes.TrimLeft(b[1:], " "))
	if digits == 0 || digits > 2 || hour > 23 || len(rest) == 0 || rest[0] != ':' {
		return 0, false
	}
	for i := 0; i < 2 && len(rest) > 0 && rest[0] == ':'; i++ {
		var v int
		if v, digits, rest = digitsOf(rest[1:]); digits != 2 || v > 59 {
			return 0, false
		}
	}
	if len(rest) > 1 && rest[0] == '.' {
		rest = bytes.TrimLeft(rest[1:], "0123456789")
	}
	switch word := strings.ToUpper(strings.TrimSpace(string(rest))); {
	case word == "" || word == "Z":
		return hour, true
	case word == "AM" && hour >= 1 && hour <= 12:
		return hour % 12, true
	case word == "PM" && hour >= 1 && hour <= 12:
		return hour%12 + 12, true
	case word[0] == '+' || word[0] == '-':
		v, digits, rest := digitsOf([]byte(strings.Replace(word[1:], ":", "", 1)))
		return hour, (digits == 2 || digits == 4) && len(rest) == 0 && v <= 1459
	}
	return 0, false
}

// dateText writes the day of a date.
func dateText(hours int32) string {
	return time.Unix(int64(hours)*3600, 0).UTC().Format("2006-01-02")
}
