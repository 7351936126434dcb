// Package units words numbers for messages: counts, sizes, times.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var binary = []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// Bytes is a number of bytes in the largest unit of which there is one: 67.3 KiB.
func Bytes(n int64) string { return bytesTo(n, 1) }

// TwoBytes is Bytes for numbers that are compared: those that differ read
// differently, with up to three decimals or as plain bytes.
func TwoBytes(a, b int64) (string, string) {
	for decimals := 1; decimals <= 3; decimals++ {
		x, y := bytesTo(a, decimals), bytesTo(b, decimals)
		if x != y || a == b {
			return x, y
		}
	}
	return fmt.Sprintf("%d B", a), fmt.Sprintf("%d B", b)
}

// bytesTo rounds to a number of decimals.
func bytesTo(n int64, decimals int) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/(1<<10), 0
	for ; v >= 1<<10; unit++ {
		v /= 1 << 10
	}
	return fmt.Sprintf("%.*f %s", decimals, v, binary[unit])
}

// Seconds is a rough time, such as a predicted one: 73 µs, 3.2 ms, 120 ms, 1.5 s or 12:34.
// [Time] is for measured ones.
func Seconds(s float64) string {
	switch {
	case s < 0.9995e-3:
		return fmt.Sprintf("%.3g µs", math.Round(1e6*s))
	case s < 0.00995:
		return fmt.Sprintf("%.1f ms", 1000*s)
	case s < 0.9995:
		return fmt.Sprintf("%.0f ms", 1000*s)
	case s < 59.95:
		return fmt.Sprintf("%.1f s", s)
	}
	return Clock(time.Duration(min(s, 1e9) * float64(time.Second)))
}

// Count is a number of things: "1 device", "2 devices", "1,500 rows". A number that names
// a thing, as in step 1500, is no count: it has no comma, so that a flag takes it.
func Count(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "h"), strings.HasSuffix(thing, "s"):
		thing += "es"
	default:
		thing += "s"
	}
	return Thousands(n) + " " + thing
}

// Thousands writes a number with commas: 1,234,567.
func Thousands[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Number is a number in the way that suits its size: 20,860, 12.34, 0.00123, 1.5e-07.
// It has four digits, or all of those before the point.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case a < 999.95 || a >= 1e9 || a != a:
		return fmt.Sprintf("%.4g", v)
	case v < 0:
		return "-" + Number(a)
	}
	return Thousands(int64(math.Round(v)))
}

// Rate is a number of things a second, with at most four digits that are not 0: 339,200,
// 5,296, 53, 0.25.
func Rate(v float64) string {
	if v >= 1000 {
		unit := math.Pow(10, math.Floor(math.Log10(v))-3)
		v = math.Round(v/unit) * unit
	}
	if v >= 10 {
		v = math.Round(v)
	}
	return Number(v)
}

// Time is a duration in the way that suits its size, with three digits: 21.0 µs, 1.54 ms,
// 476 ms, 1.51 s, 15.0 s; or 12:34.
func Time(d time.Duration) string {
	switch s := d.Seconds(); {
	case s == 0:
		return "0 s"
	case s < 0.9995e-3:
		return threeDigits(1e6*s) + " µs"
	case s < 0.9995:
		return threeDigits(1000*s) + " ms"
	case s < 59.95:
		return threeDigits(s) + " s"
	}
	return Clock(d)
}

// Milliseconds is the [Time] of so many milliseconds.
func Milliseconds(ms float64) string { return Time(time.Duration(ms * float64(time.Millisecond))) }

// threeDigits writes a number up to 1000 with three digits, but at most two decimals.
func threeDigits(v float64) string {
	decimals := 2
	for limit := 9.995; decimals > 0 && v >= limit; limit *= 10 {
		decimals--
	}
	return fmt.Sprintf("%.*f", decimals, v)
}

// Clock is a duration as 0:07 or 1:02:03.
func Clock(d time.Duration) string {
	s := int(min(d, 1000*time.Hour).Round(time.Second).Seconds())
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// List joins words: "a", "a and b", "a, b and c".
func List(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
