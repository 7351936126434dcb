package ops

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/panics"
)

// LearningRate is the rate of a step, from step i32[] to f32[]. During the first Warmup
// steps, counted from 0, it is Base*(step+1)/Warmup; then it follows the schedule.
//
// The rate is computed here, and not in the kernels, so that all of them agree to the bit.
type LearningRate struct {
	Schedule      string // constant, step, cosine, linear, wsd, inverse_sqrt, one_cycle or one of [RegisterSchedule]
	Base          float64
	Warmup, Total int  // in steps
	Held          bool // from step Total on, the rate stays that of the step before
	Keys          any  // of the schedule, such as Cosine{Min: 0.01}; nil: the defaults
}

// Kind is "learning_rate".
func (o LearningRate) Kind() string { return "learning_rate" }

// String has the keys of constant, step, cosine and linear as plain numbers, and those of other
// schedules where there are some: measured times are kept under this text.
func (o LearningRate) String() string {
	own, key := schedules[o.Schedule], func(name string) any {
		if v, ok := registry.Get(o.Keys, name); ok {
			return v
		}
		return 0
	}
	held := ""
	if o.Held {
		held = " Held"
	}
	if o.Keys != nil && own != nil && !own.plain {
		return fmt.Sprintf("{Schedule:%s Base:%v Min:0 Gamma:0 Warmup:%d Total:%d Every:0 Keys:%+v%s}", o.Schedule, o.Base, o.Warmup, o.Total, o.Keys, held)
	}
	return fmt.Sprintf("{Schedule:%s Base:%v Min:%v Gamma:%v Warmup:%d Total:%d Every:%v%s}", o.Schedule, o.Base, key("min_lr"), key("gamma"), o.Warmup, o.Total, key("every"), held)
}

// At is the rate of a step, counted from 0.
func (o LearningRate) At(step int) float64 {
	if o.Held {
		step = min(step, o.Total-1)
	}
	if step < o.Warmup {
		return o.Base * float64(step+1) / float64(o.Warmup)
	}
	s, known := schedules[o.Schedule]
	if !known {
		return o.Base
	}
	return s.rate(o.Keys, o.Base, o.Warmup, step-o.Warmup, o.Total-o.Warmup)
}

// Complete has the schedule's keys as a struct, with the defaults of those that are not
// given. Keys that are not valid stay as they are, for Infer to refuse.
func (o LearningRate) Complete() LearningRate {
	if s, known := schedules[o.Schedule]; known {
		o.Keys = s.complete(o.Keys)
	}
	return o
}

// Course is what is known of the rate after the warm-up. It is the same for steadyFor
// steps, then for the next steadyFor, and so on; 0: it may change at each step. With ends, it
// stays as it is from the end of the run on.
func (o LearningRate) Course() (steadyFor int, ends bool) {
	s, known := schedules[o.Schedule]
	if !known {
		return 0, false
	}
	return s.steadyFor(o.Keys), s.ends || o.Held
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
	if s.ends && o.Total <= o.Warmup {
		return nil, fmt.Errorf("schedule %s ends at step %d, within its warm-up of %d", o.Schedule, o.Total, o.Warmup)
	}
	if err := s.check(o); err != nil {
		return nil, err
	}
	return one(shape.F32()), expect("step", in[0], shape.I32())
}

// Grad is none: updates come after the backward pass.
func (o LearningRate) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is a scalar's.
func (o LearningRate) Cost(in, out []shape.Meta) graph.Cost { return perElem(10, 1, in, out) }

// ScheduleType is a schedule of the learning rate that configs know. Keys is the struct of
// its keys, as [registry.Fields] takes it; struct{} for none. A method CheckRate(lr
// float64) error of Keys can refuse values that do not go with optimizer.lr, and
// CheckWarmup(warmup int) error a number of steps of the warm-up.
type ScheduleType[Keys any] struct {
	Name    string
	Version int    // at least 1; runs keep it, and refuse another one: raise it where the numbers change
	Doc     string // a sentence for lists
	// Defaults are the keys that are not given. A method Check() error of Keys can
	// refuse values.
	Defaults Keys
	// Rate is the learning rate of a step, counted from 0 at the end of the warm-up, of that
	// many steps until the run ends; lr is optimizer.lr. A run that goes on further calls it
	// with step >= steps. It must depend on its arguments alone.
	Rate func(keys Keys, lr float64, step, steps int) float64
	// RateAfter is in place of Rate where the rates also depend on the number of steps of the
	// warm-up.
	RateAfter func(keys Keys, lr float64, warmup, step, steps int) float64
	// Ends: from the end of the run on, which is the step equal to steps, the rate stays as
	// it is. The warm-up must then be shorter than the run.
	Ends bool
	// SteadyFor is nil unless the rate stays the same for a number of steps, then for as
	// many again, and so on: it gives that number, at least 1. A GPU then keeps one rate for
	// all of them. Leave it out for a rate that changes in between, however regularly. After
	// the run, a rate that a change leaves as it was stays so.
	SteadyFor func(keys Keys) int
}

// schedule is a row of the table of schedules. Keys that do not belong to it count as the
// defaults, which check refuses.
type schedule struct {
	plain, ends bool // plain: all of its keys are min_lr, gamma and every
	complete    func(keys any) any
	check       func(o LearningRate) error
	rate        func(keys any, lr float64, warmup, step, steps int) float64
	steadyFor   func(keys any) int
}

// schedules is the table of schedules, by name.
var schedules = map[string]*schedule{}

// RegisterSchedule adds a schedule, for configs and for [LearningRate.Schedule]. It
// belongs in an init function, and panics where the schedule cannot be added.
func RegisterSchedule[Keys any](t ScheduleType[Keys]) { t.register(registry.Add) }

// builtInSchedule is RegisterSchedule for the schedules of this package, which have no
// version.
func builtInSchedule[Keys any](t ScheduleType[Keys]) { t.register(registry.BuiltIn) }

func (t ScheduleType[Keys]) register(add func(registry.Entry, func())) {
	row := &schedule{plain: t.plain(), ends: t.Ends, check: t.check,
		rate: func(keys any, lr float64, warmup, step, steps int) float64 {
			return t.rate(t.keys(keys), lr, warmup, step, steps)
		},
		steadyFor: func(any) int { return 0 },
		complete: func(keys any) any {
			if full, err := registry.KeysOf(keys, t.Defaults); err == nil && keys != nil {
				return full
			}
			return keys
		},
	}
	if t.SteadyFor != nil {
		row.steadyFor = func(keys any) int { return t.SteadyFor(t.keys(keys)) }
	}
	add(registry.Entry{Kind: registry.Schedule, Name: t.Name, Version: t.Version, Doc: t.Doc, Keys: t.Defaults},
		func() { schedules[t.Name] = row })
}

// plain reports whether the keys are those of the first schedules.
func (t ScheduleType[Keys]) plain() bool {
	switch any(t.Defaults).(type) {
	case struct{}, Stepped, Falling:
		return t.Version == 0
	}
	return false
}

// rate is Rate, or RateAfter in its place.
func (t ScheduleType[Keys]) rate(keys Keys, lr float64, warmup, step, steps int) float64 {
	if t.RateAfter != nil {
		return t.RateAfter(keys, lr, warmup, step, steps)
	}
	return t.Rate(keys, lr, step, steps)
}

// keys are the given keys, which check has seen.
func (t ScheduleType[Keys]) keys(given any) Keys {
	switch given := given.(type) {
	case Keys:
		return given
	case *Keys:
		return *given
	}
	return t.Defaults
}

// check refuses wrong keys and, of a program's schedule, one that gives no rates.
func (t ScheduleType[Keys]) check(o LearningRate) error {
	keys, err := registry.KeysOf(o.Keys, t.Defaults)
	if err != nil {
		return fmt.Errorf("schedule %s: %w", t.Name, err)
	}
	if k, asks := any(keys).(interface{ CheckWarmup(warmup int) error }); asks {
		if err := k.CheckWarmup(o.Warmup); err != nil {
			return fmt.Errorf("schedule %s: %w", t.Name, err)
		}
	}
	if t.Version == 0 {
		return nil
	}
	return t.try(keys, o.Base, o.Warmup, max(1, o.Total-o.Warmup))
}

// try calls Rate for many of a run's steps, and says why it gives no rate, or one that
// changes where SteadyFor or Ends says that it does not.
func (t ScheduleType[Keys]) try(keys Keys, lr float64, warmup, steps int) (err error) {
	const most = 2000 // steps that are tried
	at := 0
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("schedule %s panicked at step %d of %d: %s", t.Name, at, steps, panics.Text(r))
		}
	}()
	rate := func(step int) float64 {
		at = step
		return t.rate(keys, lr, warmup, step, steps)
	}
	steadyFor := 1
	if t.SteadyFor != nil {
		if steadyFor = t.SteadyFor(keys); steadyFor < 1 {
			return fmt.Errorf("schedule %s: SteadyFor gives %d steps: it must be at least 1; leave it out if the rate may change at each step", t.Name, steadyFor)
		}
	}
	for step := 0; step < steps; step += max(1, steps/most) {
		if now := rate(step); now-now != 0 {
			return fmt.Errorf("schedule %s gives the rate %v at step %d of %d: it must be a number", t.Name, now, step, steps)
		}
		first := step - step%steadyFor
		last := min(first+steadyFor, steps) - 1
		if err := t.stays(rate, "SteadyFor", first, step, (first+last)/2, last); err != nil {
			return err
		}
	}
	if !t.Ends {
		return nil
	}
	return t.stays(rate, "Ends", steps, steps+1, 2*steps)
}

// stays refuses a rate that is another at one of the later steps.
func (t ScheduleType[Keys]) stays(rate func(step int) float64, field string, first int, later ...int) error {
	was := rate(first)
	for _, step := range later {
		if now := rate(step); now != was {
			return fmt.Errorf("schedule %s gives the rate %v at step %d and %v at step %d, although its field %s says that the rate does not change between these steps: leave %s out", t.Name, was, first, now, step, field, field)
		}
	}
	return nil
}
