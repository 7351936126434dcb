package ops_test

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// saw are the keys of a schedule for tests: teeth of Period steps.
type saw struct {
	Period    int `yaml:"period" min:"1" doc:"steps of a tooth"`
	SteadyFor int `yaml:"steady_for" doc:"what SteadyFor says"`
}

func init() {
	ops.RegisterSchedule(ops.ScheduleType[saw]{
		Name: "teeth_of_a_test", Version: 1, Doc: "Falls, and begins again.", Defaults: saw{Period: 4, SteadyFor: 1},
		Rate: func(k saw, lr float64, step, _ int) float64 {
			return lr * (1 - float64(step%k.Period)/float64(k.Period))
		},
		SteadyFor: func(k saw) int { return k.SteadyFor },
	})
	ops.RegisterSchedule(ops.ScheduleType[struct{}]{
		Name: "endless", Version: 1, Doc: "Falls for ever.", Ends: true,
		Rate: func(_ struct{}, lr float64, step, _ int) float64 { return lr / float64(1+step) },
	})
}

// A rate that changes where its schedule says that it does not would be another on GPUs. It
// is refused, however long the run and the teeth are.
func TestRateMustStayWhereItSaysSo(t *testing.T) {
	const steady = ", although its field SteadyFor says that the rate does not change between these steps: leave SteadyFor out"
	for _, c := range []struct {
		schedule string
		keys     any
		total    int
		want     string
	}{
		{"teeth_of_a_test", saw{4, 1}, 100, ""},
		{"teeth_of_a_test", saw{4, 4}, 100, "schedule teeth_of_a_test gives the rate 0.3 at step 0 and 0.22499999999999998 at step 1" + steady},
		{"teeth_of_a_test", saw{100, 100}, 4_000_000, steady},
		{"teeth_of_a_test", saw{4000, 4000}, 20, steady},
		{"teeth_of_a_test", saw{4, 0}, 100, "schedule teeth_of_a_test: SteadyFor gives 0 steps: it must be at least 1; leave it out if the rate may change at each step"},
		{"endless", nil, 5, "at step 6, although its field Ends says that the rate does not change between these steps: leave Ends out"},
	} {
		_, err := ops.LearningRate{Schedule: c.schedule, Keys: c.keys, Base: 0.3, Total: c.total}.Infer([]shape.Meta{shape.I32()})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %+v in %d steps: %v, want %q", c.schedule, c.keys, c.total, err, c.want)
		}
	}
}
