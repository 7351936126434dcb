package columns

import "bytes"

// Moment reads a date in an order as seconds from 1970 on, as the field has them: an offset from
// UTC does not count.
func Moment(field []byte, order string) (seconds float64, ok bool) {
	hours, ok := date(field, order)
	if !ok {
		return 0, false
	}
	seconds = 3600 * float64(hours)
	_, rest, timed := bytes.Cut(field, []byte(":"))
	if !timed {
		return seconds, true
	}
	minute, _, rest := digitsOf(rest)
	seconds += 60 * float64(minute)
	if len(rest) == 0 || rest[0] != ':' {
		return seconds, true
	}
	second, _, rest := digitsOf(rest[1:])
	seconds += float64(second)
	scale := 1.0
	for i := 1; len(rest) > 1 && rest[0] == '.' && i < len(rest) && rest[i] >= '0' && rest[i] <= '9'; i++ {
		scale /= 10
		seconds += scale * float64(rest[i]-'0')
	}
	return seconds, true
}
