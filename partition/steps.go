package partition

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/forecast"
	"github.com/berth-ml/berth/partition/simulate"
	"github.com/berth-ml/berth/partition/step"
)

// StepOptions describes a step of a plan.
type StepOptions struct {
	// Microbatches of the step, at least 1.
	Microbatches int
	// Tail is the plan of the last microbatch and of the update, made by Rebind.
	// Nil means that they are as in the plan.
	Tail *Plan
	// Fetch keeps the graph's outputs after the step.
	Fetch bool
}

// Instance is the instance of v for a microbatch. tail tells that p is a step's
// tail.
func (p *Plan) Instance(v *graph.Value, microbatch int, tail bool) step.Instance {
	return p.program().Instance(v, microbatch, tail)
}

// Launches lists the launches of a step in the order in which they are queued:
// that of the schedule, then the update, level by level over all stages.
func (p *Plan) Launches(o StepOptions) ([]step.Launch, error) {
	return p.program().Launches(stop.When(nil), o.inner())
}

// inner is the step of a program.
func (o StepOptions) inner() step.Options {
	x := step.Options{Microbatches: o.Microbatches, Fetch: o.Fetch}
	if o.Tail != nil {
		x.Tail = o.Tail.program()
	}
	return x
}

// program is what the launches of the plan's steps follow from.
func (p *Plan) program() *step.Program {
	return &step.Program{Index: p.idx, Segments: p.Segments, Devices: p.cut.Device, PerReplica: p.options.perReplica(), Bucket: p.Bucket, Schedule: p.ScheduleOf}
}

// stepSizes lists the microbatches of a full step and, where there is one, of the
// smaller last step of an epoch.
func (p *Plan) stepSizes() []int {
	if last := p.options.LastMicrobatches; last > 0 && last < p.Microbatches {
		return []int{p.Microbatches, last}
	}
	return []int{p.Microbatches}
}

// forecaster forecasts the memory of the plan's steps.
func (p *Plan) forecaster() *forecast.Forecaster {
	o := &p.options
	return forecast.New(p.program(), forecast.Options{Specs: o.Devices, Estimate: o.Estimate, CheckFinite: o.checkFinite, Sizes: p.stepSizes(), Replicas: p.Replicas()})
}

// Predict simulates a step among others of a run. ask is called now and then; its error
// ends the simulation. Nil means never.
func (p *Plan) Predict(ask func() error) (*simulate.Prediction, error) {
	check := stop.When(ask)
	launches, err := p.program().Launches(check, step.Options{Microbatches: p.Microbatches})
	if err != nil {
		return nil, err
	}
	var traces []*forecast.Trace
	if slices.ContainsFunc(p.Memory, func(f forecast.Forecast) bool { return f.Moved() > 0 }) {
		if traces, err = p.forecaster().Traces(launches, nil); err != nil {
			return nil, err
		}
	}
	return simulate.Step(check, p.options.speeds(), launches, p.Memory, traces)
}

// busySeconds is, per device, the time for which it works in a step.
func (p *Plan) busySeconds() []float64 {
	launches, err := p.Launches(StepOptions{Microbatches: p.Microbatches})
	if err != nil {
		panic("BUG: a plan without launches: " + err.Error())
	}
	return simulate.Busy(p.options.speeds(), launches, p.Memory)
}
