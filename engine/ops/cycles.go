package ops

import (
	"fmt"
	"math"
)

// WSD are the keys of the schedule wsd (warmup, stable, decay).
type WSD struct {
	Falling
	DecayRatio float64 `yaml:"decay_ratio" above:"0" max:"1" doc:"share of the steps after the warm-up over which the rate falls, at the run's end"`
}

// OneCycle are the keys of the schedule one_cycle, as PyTorch's OneCycleLR names them.
type OneCycle struct {
	PctStart       float64 `yaml:"pct_start" min:"0" max:"1" doc:"share of the steps over which the rate rises"`
	DivFactor      float64 `yaml:"div_factor" min:"1" doc:"the rate begins at lr / div_factor"`
	FinalDivFactor float64 `yaml:"final_div_factor" min:"1" doc:"the rate ends at lr / div_factor / final_div_factor"`
}

// CheckWarmup refuses a warm-up before the schedule's own.
func (k OneCycle) CheckWarmup(warmup int) error {
	if warmup > 0 {
		return fmt.Errorf("one_cycle has a warm-up of its own, pct_start of the steps: leave warmup out, or give 0")
	}
	return nil
}

func init() {
	builtInSchedule(ScheduleType[WSD]{
		Name: "wsd", Doc: "Warm-up, stable, decay: the rate stays `lr`, and falls by a line to `min_lr` over the last steps; Hu et al., 2024 (MiniCPM).",
		Ends: true, Defaults: WSD{DecayRatio: 0.1}, Rate: wsd,
	})
	builtInSchedule(ScheduleType[struct{}]{
		Name: "inverse_sqrt", Doc: "The rate falls with the root of the step: in step n, counted from 1, it is lr·√(warmup/n); Vaswani et al., 2017. Without a warm-up it is lr/√n.",
		RateAfter: func(_ struct{}, lr float64, warmup, step, _ int) float64 {
			return lr * math.Sqrt(float64(max(1, warmup))/float64(warmup+step+1))
		},
	})
	builtInSchedule(ScheduleType[OneCycle]{
		Name: "one_cycle", Doc: "Half a cosine from lr/div_factor up to `lr`, and half a cosine down to lr/div_factor/final_div_factor; Smith and Topin, 2018, as PyTorch's OneCycleLR. The momentum stays what it is.",
		Ends: true, Defaults: OneCycle{PctStart: 0.3, DivFactor: 25, FinalDivFactor: 1e4}, Rate: oneCycle,
	})
}

// wsd falls over a whole number of steps, at least one. The first of them still has lr, and
// the one after the run's last would have min_lr, as of linear.
func wsd(k WSD, lr float64, step, steps int) float64 {
	decay := max(1, int(math.Round(k.DecayRatio*float64(steps))))
	return lr + (k.Min-lr)*part(max(0, step-(steps-decay)), decay)
}

// oneCycle has its top at step pct_start·steps − 1, which need not be whole, and its end at the
// last step.
func oneCycle(k OneCycle, lr float64, step, steps int) float64 {
	first, end := lr/k.DivFactor, float64(steps-1)
	at, top := min(float64(step), end), k.PctStart*float64(steps)-1
	switch {
	case top > 0 && at <= top:
		return annealed(first, lr, at/top)
	case top == end: // the only step
		return lr
	}
	return annealed(lr, first/k.FinalDivFactor, (at-top)/(end-top))
}

// annealed goes from a to b by half a cosine, as done goes from 0 to 1.
func annealed(a, b, done float64) float64 { return b + (a-b)/2*(1+math.Cos(math.Pi*done)) }
