package ops

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/panics"
)

// LearningRate is the rate of a step, from step i32[] to f32[]; see
// [LearningRate.At] for the schedules.
type LearningRate struct {
	Schedule             string // constant, step, cosine, linear or one of [RegisterSchedule]
	Base, Min, Gamma     float64
	Warmup, Total, Every int // in steps
	Keys                 any // schedules of RegisterSchedule: their Keys; nil: the defaults
}

// Kind is "learning_rate".
func (o LearningRate) Kind() string { return "learning_rate" }

// String has Keys only where there are some.
func (o LearningRate) String() string {
	s := fmt.Sprintf("{Schedule:%s Base:%v Min:%v Gamma:%v Warmup:%d Total:%d Every:%d", o.Schedule, o.Base, o.Min, o.Gamma, o.Warmup, o.Total, o.Every)
	if o.Keys != nil {
		s += fmt.Sprintf(" Keys:%+v", o.Keys)
	}
	return s + "}"
}

// schedule is the course of the learning rate after the warm-up.
type schedule struct {
	check func(o LearningRate) error // nil: any numbers will do
	// at is the rate t steps after the warm-up, of n.
	at func(o LearningRate, t, n int) float64
}

// schedules is the table of schedules, by name. [RegisterSchedule] adds those of a
// program.
var schedules = map[string]schedule{
	"constant": {nil, func(o LearningRate, _, _ int) float64 { return o.Base }},
	"step": {
		func(o LearningRate) error {
			if o.Every < 1 {
				return fmt.Errorf("schedule step every %d steps: expected at least 1", o.Every)
			}
			return nil
		},
		func(o LearningRate, t, _ int) float64 { return o.Base * math.Pow(o.Gamma, float64(t/o.Every)) },
	},
	"cosine": {LearningRate.ends, func(o LearningRate, t, n int) float64 {
		return o.Min + (o.Base-o.Min)*0.5*(1+math.Cos(math.Pi*part(t, n)))
	}},
	"linear": {LearningRate.ends, func(o LearningRate, t, n int) float64 { return o.Base + (o.Min-o.Base)*part(t, n) }},
}

// part is t/n, at most 1.
func part(t, n int) float64 { return min(1, float64(t)/float64(max(1, n))) }

// ends checks that a schedule over the whole run ends after its warm-up.
func (o LearningRate) ends() error {
	if o.Total <= o.Warmup {
		return fmt.Errorf("schedule %s ends at step %d, within its warm-up of %d", o.Schedule, o.Total, o.Warmup)
	}
	return nil
}

// At is the rate of a step, counted from 0. During the first Warmup steps it
// is Base*(step+1)/Warmup. After that, with t steps since, of n = Total-Warmup:
//
//	constant: Base
//	step:     Base * Gamma^(t/Every), the quotient rounded down
//	cosine:   Min + (Base-Min) (1 + cos(pi t/n))/2, Min from t = n on
//	linear:   Base + (Min-Base) t/n, Min from t = n on
//	others:   Base * Factor(t, n)
//
// It is here, and not with the kernels, so that all of them agree to the bit.
func (o LearningRate) At(step int) float64 {
	if step < o.Warmup {
		return o.Base * float64(step+1) / float64(o.Warmup)
	}
	s, known := schedules[o.Schedule]
	if !known {
		return o.Base
	}
	return s.at(o, step-o.Warmup, o.Total-o.Warmup)
}

// Infer wants the step, and a schedule whose numbers make sense.
func (o LearningRate) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	registry.Seal() // the table is read from now on
	s, known := schedules[o.Schedule]
	if !known {
		return nil, fmt.Errorf("no schedule %q: use %s", o.Schedule, strings.Join(slices.Sorted(maps.Keys(schedules)), ", "))
	}
	if s.check != nil {
		if err := s.check(o); err != nil {
			return nil, err
		}
	}
	return one(shape.F32()), expect("step", in[0], shape.I32())
}

// Grad is none: updates come after the backward pass.
func (o LearningRate) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is a scalar's.
func (o LearningRate) Cost(in, out []shape.Meta) graph.Cost { return perElem(10, 1, in, out) }

// ScheduleType is a schedule of the learning rate that a program adds. Keys is the
// struct of its keys in a config, as [registry.Fields] takes it; struct{} for none.
type ScheduleType[Keys any] struct {
	Name    string
	Version int    // at least 1; runs keep it, and refuse another one: raise it where the numbers change
	Doc     string // a sentence for lists
	// Defaults are the keys that are not given. A method Check() error of Keys can
	// refuse values.
	Defaults Keys
	// Factor is the factor of the learning rate for a step, counted from 0 at the end
	// of the warm-up, of that many steps until the run ends. A run that goes on further
	// calls it with step >= steps. It must depend on its arguments alone.
	Factor func(keys Keys, step, steps int) float64
}

// try calls Factor for many of a run's steps, and says why it gives no factor.
func (t ScheduleType[Keys]) try(keys Keys, steps int) (err error) {
	const most = 2000 // calls
	at := 0
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("schedule %s panicked at step %d of %d: %s", t.Name, at, steps, panics.Text(r))
		}
	}()
	for ; at < steps; at += max(1, steps/most) {
		if f := t.Factor(keys, at, steps); f-f != 0 {
			return fmt.Errorf("schedule %s gives the factor %v at step %d of %d: it must be a number", t.Name, f, at, steps)
		}
	}
	return nil
}

// RegisterSchedule adds a schedule, for configs and for [LearningRate.Schedule]. It
// belongs in an init function, and panics where the schedule cannot be added.
func RegisterSchedule[Keys any](t ScheduleType[Keys]) {
	row := schedule{
		check: func(o LearningRate) error {
			keys, err := registry.KeysOf(o.Keys, t.Defaults)
			if err != nil {
				return err
			}
			return t.try(keys, max(1, o.Total-o.Warmup))
		},
		at: func(o LearningRate, step, steps int) float64 {
			keys := t.Defaults
			switch given := o.Keys.(type) {
			case Keys:
				keys = given
			case *Keys:
				keys = *given
			}
			return o.Base * t.Factor(keys, step, steps)
		},
	}
	if _, taken := schedules[t.Name]; taken {
		panic("register schedule " + t.Name + ": the name exists already: choose another")
	}
	registry.Add(registry.Entry{Kind: registry.Schedule, Name: t.Name, Version: t.Version, Doc: t.Doc, Keys: t.Defaults},
		func() { schedules[t.Name] = row })
}
