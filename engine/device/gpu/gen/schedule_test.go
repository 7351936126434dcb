package gen

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
)

func init() {
	ops.RegisterSchedule(ops.ScheduleType[struct{}]{Name: "falling", Version: 1, Doc: "Falls, and panics well after its end.",
		Rate: func(_ struct{}, lr float64, step, steps int) float64 {
			if step > 3*steps {
				panic("too late")
			}
			return lr / float64(1+step)
		}})
	ops.RegisterSchedule(ops.ScheduleType[struct{}]{Name: "stairs", Version: 1, Doc: "Falls every 20 steps, and panics after its end.",
		Rate: func(_ struct{}, lr float64, step, steps int) float64 {
			if step > steps {
				panic("too late")
			}
			return lr / float64(1+step/20)
		},
		SteadyFor: func(struct{}) int { return 20 }})
	ops.RegisterSchedule(ops.ScheduleType[struct{}]{Name: "late", Version: 1, Doc: "Changes once, after some equal periods.",
		Rate:      func(_ struct{}, lr float64, step, steps int) float64 { return lr / float64(1+min(step, steps)/60) },
		SteadyFor: func(struct{}) int { return 20 }})
}

// scheduleKeys are keys for each schedule with which its rate changes within 100 steps, if it can.
var scheduleKeys = map[string]any{
	"constant": nil, "step": ops.Stepped{Every: 7, Gamma: 0.7}, "cosine": ops.Falling{Min: 0.01}, "linear": ops.Falling{Min: 0.01},
	"wsd": ops.WSD{Falling: ops.Falling{Min: 0.01}, DecayRatio: 0.25}, "inverse_sqrt": nil, "one_cycle": ops.OneCycle{PctStart: 0.4, DivFactor: 10, FinalDivFactor: 50},
	"falling": nil, "stairs": nil, "late": nil,
}

// over reports whether the rate of a schedule panics at a step, counted from the warm-up, of
// a run of so many.
func over(schedule string, step, steps int) bool {
	return schedule == "falling" && step > 3*steps || schedule == "stairs" && step > steps
}

// The table of a schedule gives each step the rate that cpu computes. That of a registered
// schedule ends where its function does.
func TestRatesAreThoseOfTheOp(t *testing.T) {
	for _, e := range registry.List(registry.Schedule) {
		keys, known := scheduleKeys[e.Name]
		if !known {
			t.Errorf("give schedule %s keys in scheduleKeys", e.Name)
			continue
		}
		for _, o := range []ops.LearningRate{{}, {Warmup: 10}, {Held: true}, {Warmup: 10, Held: true}} {
			o.Schedule, o.Keys, o.Base, o.Total = e.Name, keys, 0.3, 100
			if e.Name == "one_cycle" { // it has a warm-up of its own
				o.Warmup = 0
			}
			warmup := o.Warmup
			rate := looksUp(t, o)
			for step := range 1000 {
				got, ok := rate(step)
				if !o.Held && over(e.Name, step-warmup, 100-warmup) {
					if ok && over(e.Name, step-warmup-20, 100-warmup) {
						t.Errorf("%s has a rate for step %d: its function panics there", e.Name, step)
					}
					continue
				}
				if want := float32(o.At(step)); !ok || got != want {
					t.Fatalf("%s after %d steps of warm-up: step %d has %v (%v), want %v: does its rate stay the same for SteadyFor steps?", e.Name, warmup, step, got, ok, want)
				}
			}
		}
	}
}

// A rate that changes more often than a table of fixed size could say changes until the run
// ends.
func TestRateFallsForALongRun(t *testing.T) {
	o := ops.LearningRate{Schedule: "step", Keys: ops.Stepped{Every: 1, Gamma: 0.99999}, Base: 0.3, Total: 200_000}
	rate := looksUp(t, o)
	for _, step := range []int{0, 65_536, 65_537, 199_999} {
		if got, ok := rate(step); !ok || got != float32(o.At(step)) {
			t.Errorf("step %d has %v (%v), want %v", step, got, ok, o.At(step))
		}
	}
}

// looksUp is what the kernel of a learning rate does.
func looksUp(t *testing.T, o ops.LearningRate) func(step int) (rate float32, ok bool) {
	t.Helper()
	step, y := &graph.Value{Meta: shape.I32()}, &graph.Value{Meta: shape.F32()}
	n := &graph.Node{Op: o, In: []*graph.Value{step}, Out: []*graph.Value{y}}
	calls, _, err := Node(n)
	if err != nil {
		t.Fatal(err)
	}
	args := calls[0].Args
	rates, warm, period, most := *args[3].Floats, int(args[4].Value), int(args[5].Value), int(args[6].Value)
	stays := strings.Contains(calls[0].Source, "if (at > most) at = most;")
	return func(step int) (float32, bool) {
		at := step
		if step >= warm {
			if at = (step - warm) / period; at > most && !stays {
				return 0, false
			}
			at = min(at, most) + warm
		}
		return rates[at], true
	}
}
