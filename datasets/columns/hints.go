package columns

import (
	"fmt"
	"math"
	"regexp"
)

// hints say of values that look like numbers or dates to a person how they can be read as
// such.
var hints = []struct {
	like *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`^[-+(]?[$€£¥] ?[-+]?[0-9][0-9.,]*\)?$|^[-+]?[0-9][0-9.,]* ?[$€£¥]$`), "an amount with its currency: write the number alone"},
	{regexp.MustCompile(`^[-+]?[0-9][0-9.,]* ?%$`), "a percentage: write the number alone"},
	{regexp.MustCompile(`^[-+]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$`), "a number with commas between thousands: leave them out"},
	{regexp.MustCompile(`^[-+]?[0-9]+,[0-9]+$`), "a number with a comma for its point: write a point"},
	{regexp.MustCompile(`^[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2}$`), "a date with two digits of its year: write four"},
	{regexp.MustCompile(`^[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{4}\b`), "a date, but the rows have days and months in different orders: write all as 2024-02-29"},
}

// hint says how the words of a column could be numbers or dates; "" if almost none looks so.
func (p *profile) hint() string {
	for _, h := range hints {
		n, example := 0, ""
		for _, c := range p.counts {
			if h.like.MatchString(c.word) {
				n += c.n
				if example == "" {
					example = c.word
				}
			}
		}
		if n*10 >= p.values*almostTenths {
			return fmt.Sprintf("%q looks like %s, and it becomes features as one", short(example), h.what)
		}
	}
	return ""
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
