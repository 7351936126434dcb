package text

import (
	"fmt"
	"math"
	"strings"

	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/internal/units"
)

// Loss is a loss with four decimals, or as a [units.Number] where it is too large or too small
// for them.
func Loss(v float64) string {
	if a := math.Abs(v); a >= 100 || a < 1e-4 && a > 0 {
		return units.Number(v)
	}
	return fmt.Sprintf("%.4f", v)
}

// Rate is a number of things a second: 5,296 samples/s.
func Rate(v float64, what string) string { return units.Rate(v) + " " + what + "s/s" }

// Share is a share as a percentage: 97.50%.
func Share(v float64) string { return fmt.Sprintf("%.2f%%", 100*v) }

// IsShare reports whether people read a metric as a percentage. The part of the data may
// stand before its name, as in val_accuracy.
func IsShare(name string) bool {
	for _, part := range []string{"train_", "val_", "test_"} {
		name = strings.TrimPrefix(name, part)
	}
	m, _ := metrics.Find(name)
	return m.Share
}

// Metric is a metric by its name: a [Share], or a number as a [Loss].
func Metric(name string, v float64) string {
	if IsShare(name) {
		return Share(v)
	}
	return Loss(v)
}

// RMSE is a root mean squared error behind the text before, "" for nil.
func RMSE(before string, v *float64) string {
	if v == nil {
		return ""
	}
	return before + "rmse " + units.Number(*v)
}

// Short is a text without its middle, if it has more than most bytes. What a user
// gave, such as a name, may be long; what to do is at the end.
func Short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	left := strings.ToValidUTF8(s[:most*3/4], "")
	right := strings.ToValidUTF8(s[len(s)-most/4:], "")
	return fmt.Sprintf("%s … (%s bytes) … %s", left, units.Thousands(len(s)-len(left)-len(right)), right)
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
		switch x := values[name]; {
		case x-x != 0:
		case IsShare(name):
			v = Share(x)
		default:
			v = units.Number(x)
		}
		fmt.Fprintf(&b, "%s%s %s", before, name, v)
	}
	return b.String()
}
