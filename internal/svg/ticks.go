package svg

import (
	"fmt"
	"math"
	"strconv"
)

// Tick is a marked value of an axis.
type Tick struct {
	At    float64
	Label string
	Hint  string // shown while the pointer is on the label
}

// Ticks marks multiples of 1, 2 or 5 times a power of ten from low to high: about as many
// as most, and no more.
func Ticks(low, high float64, most int) []Tick { return TicksOf(low, high, most, Number) }

// WholeTicks marks whole numbers.
func WholeTicks(low, high float64, most int) []Tick {
	return ticks(low, high, max(1, niceStep((high-low)/float64(most))), Number)
}

// TicksOf is Ticks with words for the values.
func TicksOf(low, high float64, most int, words func(float64) string) []Tick {
	return ticks(low, high, niceStep((high-low)/float64(most)), words)
}

// TimeTicks marks times in seconds, all in the unit that suits the longest.
func TimeTicks(low, high float64, most int) []Tick {
	u := timeUnit(max(math.Abs(low), math.Abs(high)))
	list := ticks(low/u.seconds, high/u.seconds, niceStep((high-low)/u.seconds/float64(most)), func(v float64) string {
		if v == 0 {
			return "0"
		}
		return Number(v) + " " + u.name
	})
	for i := range list {
		list[i].At *= u.seconds
	}
	return list
}

// Percent labels the ticks of shares by percentages.
func Percent(list []Tick) {
	for i := range list {
		list[i].Label = Number(100*list[i].At) + "%"
	}
}

// SizeTicks marks sizes in bytes, all in the unit that suits the largest.
func SizeTicks(low, high float64, most int) []Tick {
	unit, name := 1.0, "B"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if high < 1024*unit {
			break
		}
		unit, name = 1024*unit, larger
	}
	list := TicksOf(low/unit, high/unit, most, func(v float64) string { return Number(v) + " " + name })
	for i := range list {
		list[i].At *= unit
	}
	return list
}

// mostTicks ends an axis whose steps are lost in rounding, such as from 1e16 to 1e16+2.
const mostTicks = 50

func ticks(low, high, step float64, words func(float64) string) (list []Tick) {
	first := math.Ceil(low/step-1e-9) + 0 // -0 becomes 0
	for i := first; i*step <= high+step*1e-9 && len(list) < mostTicks; i++ {
		list = append(list, Tick{At: i * step, Label: words(i * step)})
	}
	return list
}

// niceStep is the least of 1, 2 and 5 times a power of ten that is at least x.
func niceStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, f := range []float64{1, 2, 5} {
		if x <= f*power*(1+1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// LogTicks marks a logarithmic axis: at 1, 2 and 5 times powers of ten on a short
// one, at powers of ten on a long one.
func LogTicks(low, high float64) (list []Tick) {
	decades := math.Log10(high / low)
	every := max(1, math.Ceil(decades/6))
	factors := []float64{1}
	if decades <= 3 {
		factors = []float64{1, 2, 5}
	}
	for e := math.Floor(math.Log10(low)); math.Pow(10, e) <= high; e++ {
		if math.Mod(e, every) != 0 {
			continue
		}
		for _, f := range factors {
			if v := f * math.Pow(10, e); v >= low*(1-1e-9) && v <= high*(1+1e-9) {
				list = append(list, Tick{At: v, Label: Number(v)})
			}
		}
	}
	if len(list) < 2 { // within a decade
		return Ticks(low, high, 5)
	}
	return list
}

// Number is a number in few characters: 12, 15k, 0.25, 3e-05.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0"
	case a >= 1e15 || a < 1e-4:
		return fmt.Sprintf("%.3g", v)
	case a >= 1e12:
		return trimmed(v/1e12) + "T"
	case a >= 1e9:
		return trimmed(v/1e9) + "G"
	case a >= 1e6:
		return trimmed(v/1e6) + "M"
	case a >= 1e4:
		return trimmed(v/1e3) + "k"
	}
	return trimmed(v)
}

// Rounded is Number to three digits: 2.47G, 0.333.
func Rounded(v float64) string { return Number(threeDigits(v)) }

// threeDigits rounds a number to three digits.
func threeDigits(v float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		panic("BUG: no number: " + err.Error())
	}
	return rounded
}

// unit is a unit of time.
type unit struct {
	name    string
	seconds float64
	from    float64 // in seconds, from which on it is used
}

// The units of time. Two minutes are the shortest time in minutes: 90 s is read faster than 1.5 min.
var timeUnits = []unit{{"h", 3600, 2 * 3600}, {"min", 60, 2 * 60}, {"s", 1, 1}, {"ms", 1e-3, 1e-3}, {"µs", 1e-6, 1e-6}, {"ns", 1e-9, 0}}

// timeUnit is the unit for a time in seconds.
func timeUnit(seconds float64) unit {
	for _, u := range timeUnits {
		if seconds >= u.from {
			return u
		}
	}
	panic("BUG: a time below 0")
}

// Time is a time in seconds to three digits, in a unit that suits it: 12.5 ms, 3.2 s, 15 min.
func Time(seconds float64) string {
	if seconds == 0 {
		return "0 s"
	}
	rounded := threeDigits(seconds) // 999.9 ms becomes 1 s, not 1000 ms
	u := timeUnit(math.Abs(rounded))
	return Rounded(rounded/u.seconds) + " " + u.name
}

// Share is a part of a whole in percent: 0.4%, 12%, 100%.
func Share(part float64) string {
	if part > 0 && part < 0.0995 {
		return trimmed(math.Round(1000*part)/10) + "%"
	}
	return trimmed(math.Round(100*part)) + "%"
}

// trimmed is a number to six digits, without zeros at the end.
func trimmed(v float64) string { return fmt.Sprintf("%.6g", v) }
