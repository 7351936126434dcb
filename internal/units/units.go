// Package units words sizes for messages.
package units

import (
	"fmt"
	"strconv"
	"strings"
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

// Seconds is a rough time: 3.2 ms, 120 ms or 1.5 s.
func Seconds(s float64) string {
	switch {
	case s < 0.01:
		return fmt.Sprintf("%.2g ms", 1000*s)
	case s < 1:
		return fmt.Sprintf("%.0f ms", 1000*s)
	}
	return fmt.Sprintf("%.1f s", s)
}

// Count is a number of things: "1 device", "2 devices".
func Count(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "h"), strings.HasSuffix(thing, "s"):
		thing += "es"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Thousands writes a number with commas: 1,234,567.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
