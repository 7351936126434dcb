package charts

import (
	"math"

	"gonum.org/v1/plot"
)

// evenTicks marks an axis at multiples of 1, 2 or 5 times a power of ten.
type evenTicks struct {
	most     int  // ticks
	whole    bool // at whole numbers alone
	positive bool // from 0 on
	below    bool // not at the end, where a label would stand out of the panel
}

func (e evenTicks) Ticks(low, high float64) (list []plot.Tick) {
	step := niceStep((high - low) / float64(e.most))
	if e.whole {
		step = max(1, step)
	}
	if e.positive {
		low = max(0, low)
	}
	if e.below {
		high -= 0.02 * (high - low)
	}
	for i := math.Ceil(low/step - 1e-9); i*step <= high+step*1e-9; i++ {
		v := math.Round(i) * step
		list = append(list, plot.Tick{Value: v, Label: number(math.Round(v/step) * step)})
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

// logTicks marks a logarithmic axis: at 1, 2 and 5 times powers of ten on a short
// one, at powers of ten on a long one.
type logTicks struct{}

func (logTicks) Ticks(low, high float64) (list []plot.Tick) {
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
				list = append(list, plot.Tick{Value: v, Label: number(v)})
			}
		}
	}
	if len(list) < 2 { // within a decade
		return evenTicks{most: 5}.Ticks(low, high)
	}
	return list
}
