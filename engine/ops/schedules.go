package ops

import (
	"math"

	"github.com/berth-ml/berth/engine/registry"
)

// Stepped are the keys of the schedule step.
type Stepped struct {
	Every int     `yaml:"every" min:"1" doc:"steps between multiplications"`
	Gamma float64 `yaml:"gamma" above:"0" doc:"factor"`
}

// Falling are the keys of schedules that fall to a rate: cosine and linear.
type Falling struct {
	Min float64 `yaml:"min_lr" min:"0" doc:"the rate at the schedule's end"`
}

// CheckRate refuses an end above the beginning.
func (k Falling) CheckRate(lr float64) error {
	if k.Min > lr {
		return registry.Refuse("min_lr", "%v is more than the optimizer.lr of %v; lower it", k.Min, lr)
	}
	return nil
}

func init() {
	builtInSchedule(ScheduleType[struct{}]{
		Name: "constant", Doc: "The rate stays `lr`.",
		Rate:      func(_ struct{}, lr float64, _, _ int) float64 { return lr },
		SteadyFor: func(struct{}) int { return 1 << 30 },
	})
	builtInSchedule(ScheduleType[Stepped]{
		Name: "step", Doc: "The rate is multiplied by `gamma` every `every` steps.", Defaults: Stepped{Gamma: 0.1},
		Rate: func(k Stepped, lr float64, step, _ int) float64 {
			return lr * math.Pow(k.Gamma, float64(step/k.Every))
		},
		SteadyFor: func(k Stepped) int { return k.Every },
	})
	builtInSchedule(ScheduleType[Falling]{
		Name: "cosine", Doc: "Half a cosine from `lr` to `min_lr`.", Ends: true,
		Rate: func(k Falling, lr float64, step, steps int) float64 {
			return k.Min + (lr-k.Min)*0.5*(1+math.Cos(math.Pi*part(step, steps)))
		},
	})
	builtInSchedule(ScheduleType[Falling]{
		Name: "linear", Doc: "A line from `lr` to `min_lr`.", Ends: true,
		Rate: func(k Falling, lr float64, step, steps int) float64 { return lr + (k.Min-lr)*part(step, steps) },
	})
}

// part is step/steps, at most 1.
func part(step, steps int) float64 { return min(1, float64(step)/float64(max(1, steps))) }
