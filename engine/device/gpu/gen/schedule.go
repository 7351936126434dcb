package gen

import "github.com/berth-ml/berth/engine/ops"

// stepsAfter is the least number of steps after the end of a run for which a schedule has
// rates that may change.
const stepsAfter = 1 << 16

// learningRate looks the rate up in a table that the host has computed: the op gives the
// rate, with the same bits on every device. The table has the rates of the warm-up, and
// then one for each period of steps.
func learningRate(w *writer, o ops.LearningRate) {
	most := max(1, o.Total-o.Warmup)
	period, ends := o.Course()
	switch {
	case period > 0:
		most, ends = steady(o, period), true
	case !ends:
		most += max(most, stepsAfter)
	}
	period = max(1, period)
	rates := ratesOf(o, period, most)
	late := "at = most;"
	if !ends {
		late = "{ FAIL; return; }"
	}
	w.items(1, []param{site, inInts(0, "STEP"), out(0, "Z"), table("RATES", rates), number("warm", o.Warmup), number("period", period), number("most", len(rates)-1-o.Warmup)},
		"\ti64 step = STEP[0], at = step < warm ? step : (step - warm) / period;\n\tif (step >= warm) { if (at > most) "+late+" at += warm; }\n\tif (at >= 0) Z[0] = RATES[at];\n")
}

// steady is the periods after which a schedule changes no more, in float32.
func steady(o ops.LearningRate, period int) int {
	const limit = 1 << 16
	for k := range limit {
		now, next := float32(o.At(o.Warmup+k*period)), float32(o.At(o.Warmup+(k+1)*period))
		if now == next {
			return k
		}
	}
	return limit
}

// ratesOf are the rates of the warm-up, and of that many periods and one more. A function of the
// user's that panics, because the run is over, ends the list.
func ratesOf(o ops.LearningRate, period, periods int) (rates []float32) {
	over := o.Warmup + max(1, o.Total-o.Warmup)
	rates = make([]float32, 0, o.Warmup+periods+1)
	defer func() {
		if len(rates) > over {
			_ = recover()
		}
	}()
	for i := range cap(rates) {
		rates = append(rates, float32(o.At(i+max(0, i-o.Warmup)*(period-1))))
	}
	return rates
}
