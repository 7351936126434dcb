package gen

import "github.com/berth-ml/berth/engine/ops"

// stepsAfter is the least number of steps after the end of a run for which a schedule has
// rates that may change.
const stepsAfter = 1 << 16

// learningRate looks the rate up in a table that the host has computed: the op gives the
// rate, with the same bits on every device. The table has the rates of the warm-up, and
// then one for each period of steps.
func learningRate(w *writer, o ops.LearningRate) {
	rates, period, settled := ratesOf(o)
	late := "at = most;"
	if !settled {
		late = "{ FAIL; return; }"
	}
	w.items(1, []param{site, inInts(0, "STEP"), out(0, "Z"), table("RATES", rates), number("warm", o.Warmup), number("period", period), number("most", len(rates)-1-o.Warmup)},
		"\ti64 step = STEP[0], at = step < warm ? step : (step - warm) / period;\n\tif (step >= warm) { if (at > most) "+late+" at += warm; }\n\tif (at >= 0) Z[0] = RATES[at];\n")
}

// ratesOf are the rates of the warm-up, of the periods of the run, and of those after it.
// settled: the last rate is that of all later periods. A function of the user's that panics,
// because the run is over, ends the list.
func ratesOf(o ops.LearningRate) (rates []float32, period int, settled bool) {
	steadyFor, ends := o.Course()
	period = max(1, steadyFor)
	run := (max(1, o.Total-o.Warmup) + period - 1) / period // periods
	defer func() {
		if len(rates) >= o.Warmup+run {
			_ = recover()
		}
	}()
	for step := range o.Warmup {
		rates = append(rates, float32(o.At(step)))
	}
	for k := range run + max(run, stepsAfter) + 1 {
		rates = append(rates, float32(o.At(o.Warmup+k*period)))
		switch last := rates[o.Warmup:]; {
		case ends && k == run:
			return rates, period, true
		case steadyFor > 0 && k >= run && last[k] == last[k-1]:
			return rates[:o.Warmup+1+lastChange(last)], period, true
		}
	}
	return rates, period, false
}

// lastChange is the index of the first of the equal rates at the end.
func lastChange(rates []float32) int {
	i := len(rates) - 1
	for i > 0 && rates[i-1] == rates[i] {
		i--
	}
	return i
}
