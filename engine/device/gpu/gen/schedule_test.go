package gen

import (
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
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
}

// The table of a schedule gives each step the rate that cpu computes. That of a registered
// schedule ends where its function does.
func TestRatesAreThoseOfTheOp(t *testing.T) {
	for schedule, keys := range map[string]any{
		"constant": nil, "step": ops.Stepped{Every: 7, Gamma: 0.7}, "cosine": ops.Falling{Min: 0.01}, "linear": ops.Falling{Min: 0.01}, "falling": nil,
	} {
		for _, warmup := range []int{0, 10} {
			o := ops.LearningRate{Schedule: schedule, Keys: keys, Base: 0.3, Warmup: warmup, Total: 100}
			rate := looksUp(t, o)
			for step := range 1000 {
				got, ok := rate(step)
				if late := schedule == "falling" && step-warmup > 3*(100-warmup); late {
					if ok {
						t.Errorf("%s has a rate for step %d: its function panics there", schedule, step)
					}
					continue
				}
				if want := float32(o.At(step)); !ok || got != want {
					t.Fatalf("%s after %d steps of warm-up: step %d has %v (%v), want %v", schedule, warmup, step, got, ok, want)
				}
			}
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
	return func(step int) (float32, bool) {
		at := step
		if step >= warm {
			if at = (step - warm) / period; at > most && o.Schedule == "falling" {
				return 0, false
			}
			at = min(at, most) + warm
		}
		return rates[at], true
	}
}
