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

// Loss is a loss with four decimals, or with four digits where it is too large
// or too small for them.
func Loss(v float64) string {
	if a := math.Abs(v); a >= 1e5 || a < 1e-4 && a > 0 {
		return fmt.Sprintf("%.4g", v)
	}
	return fmt.Sprintf("%.4f", v)
}

// RMSE is a root mean squared error behind the text before, "" for nil.
func RMSE(before string, v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%srmse %.4g", before, *v)
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
			v = fmt.Sprintf("%.4g", x)
		}
		fmt.Fprintf(&b, "%s%s %s", before, name, v)
	}
	return b.String()
}
