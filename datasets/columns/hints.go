package columns

import (
	"fmt"
	"math"
	"regexp"
)

// reading is how a person reads a word.
type reading struct {
	like *regexp.Regexp
	what string
	// sure must fit a value, too; nil: nothing must. Single digits as in 1,2 may be a list or a score.
	sure *regexp.Regexp
	day  bool // it is a date, no amount
	// short is true of dates with two digits of the year. Each must be a day: 20-41-72 is not.
	short bool
}

// hints say of values that look like numbers or dates to a person how they can be read as
// such.
var hints = []reading{
	{like: regexp.MustCompile(`^[-+(]?[$€£¥] ?[-+]?[0-9][0-9.,]*\)?$|^[-+]?[0-9][0-9.,]* ?[$€£¥]$`), what: "an amount with its currency: write the number alone"},
	{like: regexp.MustCompile(`^[-+]?[0-9][0-9.,]* ?%$`), what: "a percentage: write the number alone"},
	{like: regexp.MustCompile(`^[-+]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?$`), what: "a number with commas between thousands: leave them out"},
	{like: regexp.MustCompile(`^[-+]?([0-9]+|[1-9][0-9]{0,2}(\.[0-9]{3})+),[0-9]+$`), what: "a number with a comma for its point: write it as 1234.56", sure: regexp.MustCompile(`[0-9]{2}`)},
	// Points stand between two digits each: 1.2.11 is a version.
	{like: regexp.MustCompile(`^[0-9]{1,2}[-/][0-9]{1,2}[-/][0-9]{2}$|^[0-9]{2}\.[0-9]{2}\.[0-9]{2}$`), what: "a date with two digits of its year: write four", day: true, short: true},
	{like: regexp.MustCompile(`^[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{4}\b`), what: "a date, but the rows have days and months in different orders: write all as 2024-02-29", day: true},
}

// noNumber says of a word that it is no number, and how it could be one if it looks so.
func noNumber(word string) string {
	text := fmt.Sprintf("%.40q is not a number", word)
	for _, h := range hints {
		if !h.day && h.like.MatchString(word) && (h.sure == nil || h.sure.MatchString(word)) {
			return fmt.Sprintf("%s (it looks like %s)", text, h.what)
		}
	}
	return text
}

// hint says how the words of a column could be numbers or dates; "" if almost none looks so. Beside amounts, plain
// numbers count, too: of 950 and 1,050 one has a comma.
func (p *profile) hint() string {
	for _, h := range hints {
		n, example, sure := 0, "", h.sure == nil
		for _, c := range p.counts {
			if !h.like.MatchString(c.word) || h.short && !shortDate(c.word) {
				continue
			}
			if n += c.n; example == "" {
				example = c.word
			}
			sure = sure || h.sure.MatchString(c.word)
		}
		if n > 0 && !h.day {
			n += p.numbers
		}
		if sure && n*10 >= p.values*almostTenths {
			return fmt.Sprintf("%q is taken as a word, but looks like %s", short(example), h.what)
		}
	}
	return ""
}

// shortDate reports whether a word of three numbers, the year of two digits last, is a day.
func shortDate(word string) bool {
	long := word[:len(word)-2] + "20" + word[len(word)-2:]
	return IsDate([]byte(long))
}

// packedDays reports whether sorted numbers are all days such as 20240229.
func packedDays(cells []int32) bool {
	for _, cell := range cells {
		v := float64(math.Float32frombits(uint32(cell)))
		if v != math.Trunc(v) || v < 19000101 || v > 21001231 {
			return false
		}
		if n := int(v); n/100%100 < 1 || n/100%100 > 12 || n%100 > 31 {
			return false
		}
	}
	return true
}
