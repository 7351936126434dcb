package text

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Count is a number of things: 1 step, 2 steps.
func Count(n int, what string) string { return fmt.Sprintf("%d %s", n, Plural(n, what)) }

// Plural is the word for n things: step, steps.
func Plural(n int, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}

// Commas is a number with commas between its thousands: 535,818.
func Commas(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Loss is a loss with four decimals, or as a [Number] where it is too large or too small
// for them.
func Loss(v float64) string {
	if a := math.Abs(v); a >= 100 || a < 1e-4 && a > 0 {
		return Number(v)
	}
	return fmt.Sprintf("%.4f", v)
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
	return Commas(int64(math.Round(v)))
}

// Rate is a number of things a second: 5,296 samples/s, 0.25 samples/s. It has at most
// four digits that are not 0.
func Rate(v float64, what string) string {
	if v >= 1000 {
		unit := math.Pow(10, math.Floor(math.Log10(v))-3)
		v = math.Round(v/unit) * unit
	}
	if v >= 10 {
		v = math.Round(v)
	}
	return fmt.Sprintf("%s %ss/s", Number(v), what)
}

// Time is a duration in the way that suits its size, with three digits: 0.451 ms, 23.1 ms,
// 476 ms, 1.51 s, 15.0 s; or 12:34.
func Time(d time.Duration) string {
	switch s := d.Seconds(); {
	case s < 0.9995:
		return threeDigits(1000*s) + " ms"
	case s < 59.95:
		return threeDigits(s) + " s"
	}
	return Clock(d)
}

// threeDigits writes a number up to 1000 with three digits, but at most three decimals.
func threeDigits(v float64) string {
	decimals := 3
	for limit := 0.9995; decimals > 0 && v >= limit; limit *= 10 {
		decimals--
	}
	return fmt.Sprintf("%.*f", decimals, v)
}

// Share is a share as a percentage: 97.50%.
func Share(v float64) string { return fmt.Sprintf("%.2f%%", 100*v) }

// RMSE is a root mean squared error behind the text before, "" for nil.
func RMSE(before string, v *float64) string {
	if v == nil {
		return ""
	}
	return before + "rmse " + Number(*v)
}

// Short is a text without its middle, if it has more than most bytes. What a user
// gave, such as a name, may be long; what to do is at the end.
func Short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	left := strings.ToValidUTF8(s[:most*3/4], "")
	right := strings.ToValidUTF8(s[len(s)-most/4:], "")
	return fmt.Sprintf("%s … (%s bytes) … %s", left, Commas(int64(len(s)-len(left)-len(right))), right)
}

// Clock is a duration as 0:07 or 1:02:03.
func Clock(d time.Duration) string {
	s := int(min(d, 1000*time.Hour).Round(time.Second).Seconds())
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// Metrics lists metrics by name, each behind the text before. Those that the line has
// already, which are not nil, are left out; "-" stands for one that is not defined.
func Metrics(before string, names []string, values map[string]float64, already map[string]*float64) string {
	var b strings.Builder
	for _, name := range names {
		if already[name] != nil {
			continue
		}
		v := "-"
		if x := values[name]; x-x == 0 {
			v = Number(x)
		}
		fmt.Fprintf(&b, "%s%s %s", before, name, v)
	}
	return b.String()
}
